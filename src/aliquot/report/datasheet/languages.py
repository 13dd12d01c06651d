"""The languages of ISO 639-1 by code, with the names under which the standard lists them."""

from __future__ import annotations

import re
from functools import cache

from aliquot.errors import closest

_TABLE = """
aa Afar|ab Abkhazian|ae Avestan|af Afrikaans|ak Akan|am Amharic|an Aragonese|ar Arabic|as Assamese|av Avaric|ay Aymara
az Azerbaijani|ba Bashkir|be Belarusian|bg Bulgarian|bh Bihari languages, Bihari|bi Bislama|bm Bambara
bn Bengali, Bangla|bo Tibetan|br Breton|bs Bosnian|ca Catalan, Valencian|ce Chechen|ch Chamorro|co Corsican|cr Cree
cs Czech|cu Church Slavic, Church Slavonic, Old Church Slavonic, Old Slavonic, Old Bulgarian|cv Chuvash|cy Welsh
da Danish|de German|dv Divehi, Dhivehi, Maldivian|dz Dzongkha|ee Ewe|el Greek, Modern Greek|en English|eo Esperanto
es Spanish, Castilian|et Estonian|eu Basque|fa Persian, Farsi|ff Fulah, Fula|fi Finnish|fj Fijian|fo Faroese|fr French
fy Western Frisian|ga Irish|gd Gaelic, Scottish Gaelic|gl Galician|gn Guarani|gu Gujarati|gv Manx|ha Hausa|he Hebrew
hi Hindi|ho Hiri Motu|hr Croatian|ht Haitian, Haitian Creole|hu Hungarian|hy Armenian|hz Herero|ia Interlingua
id Indonesian|ie Interlingue, Occidental|ig Igbo|ii Sichuan Yi, Nuosu|ik Inupiaq|io Ido|is Icelandic|it Italian
iu Inuktitut|ja Japanese|jv Javanese|ka Georgian|kg Kongo|ki Kikuyu, Gikuyu|kj Kuanyama, Kwanyama|kk Kazakh
kl Kalaallisut, Greenlandic|km Central Khmer, Khmer|kn Kannada|ko Korean|kr Kanuri|ks Kashmiri|ku Kurdish|kv Komi
kw Cornish|ky Kirghiz, Kyrgyz|la Latin|lb Luxembourgish, Letzeburgesch|lg Ganda, Luganda
li Limburgan, Limburger, Limburgish|ln Lingala|lo Lao|lt Lithuanian|lu Luba-Katanga|lv Latvian|mg Malagasy
mh Marshallese|mi Maori, Māori|mk Macedonian|ml Malayalam|mn Mongolian|mr Marathi|ms Malay|mt Maltese|my Burmese
na Nauru, Nauruan|nb Norwegian Bokmål, Bokmål|nd North Ndebele|ne Nepali|ng Ndonga|nl Dutch, Flemish
nn Norwegian Nynorsk, Nynorsk|no Norwegian|nr South Ndebele|nv Navajo, Navaho|ny Chichewa, Chewa, Nyanja
oc Occitan|oj Ojibwa|om Oromo|or Oriya, Odia|os Ossetian, Ossetic|pa Punjabi, Panjabi|pi Pali|pl Polish
ps Pashto, Pushto|pt Portuguese|qu Quechua|rm Romansh|rn Rundi, Kirundi|ro Romanian, Moldavian, Moldovan|ru Russian
rw Kinyarwanda|sa Sanskrit|sc Sardinian|sd Sindhi|se Northern Sami|sg Sango|sh Serbo-Croatian|si Sinhala, Sinhalese
sk Slovak|sl Slovenian, Slovene|sm Samoan|sn Shona|so Somali|sq Albanian|sr Serbian|ss Swati|st Southern Sotho
su Sundanese|sv Swedish|sw Swahili|ta Tamil|te Telugu|tg Tajik|th Thai|ti Tigrinya|tk Turkmen|tl Tagalog|tn Tswana
to Tonga, Tongan|tr Turkish|ts Tsonga|tt Tatar|tw Twi|ty Tahitian|ug Uighur, Uyghur|uk Ukrainian|ur Urdu|uz Uzbek
ve Venda|vi Vietnamese|vo Volapük|wa Walloon|wo Wolof|xh Xhosa|yi Yiddish|yo Yoruba|za Zhuang, Chuang|zh Chinese
zu Zulu
"""

_SEPARATOR = re.compile(r"[,;/\n]|\band\b|&")
_BRACKETS = re.compile(r"\(([^()]*)\)")


@cache
def by_code() -> dict[str, tuple[str, ...]]:
    """Return the names of each language by its two-letter code.

    >>> len(by_code()), by_code()["nl"]
    (185, ('Dutch', 'Flemish'))
    """
    entries = (entry.split(" ", 1) for entry in _TABLE.replace("\n", "|").split("|") if entry)
    return {code: tuple(name.strip() for name in names.split(",")) for code, names in entries}


@cache
def _by_name() -> dict[str, str]:
    return {name.casefold(): code for code, names in by_code().items() for name in names}


def unknown_languages(text: str) -> list[tuple[str, str | None]]:
    """Return what is not a full ISO 639-1 name in a list of languages, each with the name that may be meant.

    Brackets may qualify a name, `Chinese (Traditional)`, or hold the code of a language outside ISO 639-1,
    `Cebuano (ceb)`.

    >>> unknown_languages("English, Czech and Chinese (Traditional); Cebuano (ceb)")
    []
    >>> unknown_languages("en, Germn")
    [('en', 'English'), ('Germn', 'German')]
    """
    shielded = _BRACKETS.sub(lambda found: _SEPARATOR.sub(" ", found.group(0)), text)
    return [
        (name, _meant(name))
        for name in (part.strip() for part in _SEPARATOR.split(shielded))
        if name and not _is_language(name)
    ]


def _is_language(name: str) -> bool:
    bare = _BRACKETS.sub("", name).strip().casefold()
    codes = [inside.strip() for inside in _BRACKETS.findall(name)]
    return bare in _by_name() or (bool(bare) and any(re.fullmatch("[a-z]{3}", code) for code in codes))


def _meant(name: str) -> str | None:
    if name.casefold() in by_code():
        return by_code()[name.casefold()][0]
    return closest(name, (names for all_names in by_code().values() for names in all_names))


def pair_in(name: str) -> tuple[str, str] | None:
    """Return the languages of a pair of codes in a data set's name, where it holds exactly one.

    >>> pair_in("wmt24-esa-en-cs-waves23"), pair_in("summeval"), pair_in("wmt23/en-de")
    (('English', 'Czech'), None, ('English', 'German'))
    >>> pair_in("wmt22-da-de-en") is None  # Danish to German, or German to English judged by DA?
    True
    """
    found = re.findall(r"(?<![a-zA-Z])(?=([a-z]{2})-([a-z]{2})(?![a-zA-Z]))", name)
    pairs = {(a, b) for a, b in found if a in by_code() and b in by_code() and a != b}
    if len(pairs) != 1:
        return None
    ((source, target),) = pairs
    return by_code()[source][0], by_code()[target][0]
