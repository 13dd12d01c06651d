"""Replaying past campaigns: would it have worked?"""
