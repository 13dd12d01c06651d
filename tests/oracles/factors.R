# Factor analysis by R's factanal and promax, for test_factanal.py.
# Usage: Rscript factors.R FOLDER. Reads correlation.csv (no header) and n, m from size.csv; writes the pattern matrix with a
# varimax that is let converge (pattern.csv), the same with the row-normalised target of SPSS (spss.csv), factanal's own
# (default.csv), and uniquenesses, chi-square and df (fit.csv).
folder <- commandArgs(trailingOnly = TRUE)[1]
at <- function(name) file.path(folder, name)
R <- as.matrix(read.csv(at("correlation.csv"), header = FALSE))
size <- read.csv(at("size.csv"))
fit <- factanal(covmat = R, factors = size$m, n.obs = size$n, rotation = "none",
                control = list(nstart = 5, opt = list(factr = 10)))
turned <- varimax(fit$loadings, normalize = TRUE, eps = 1e-14)
write <- function(x, name) write.table(format(x, digits = 15), at(name), sep = ",", row.names = FALSE, col.names = FALSE, quote = FALSE)
write(unclass(promax(turned$loadings, m = 4)$loadings), "pattern.csv")
V <- unclass(turned$loadings)
h <- sqrt(rowSums(V^2))
U <- lm.fit(V, abs(V / h)^5 * (h / V))$coefficients
write(V %*% U %*% diag(sqrt(diag(solve(t(U) %*% U)))), "spss.csv")
write(unclass(factanal(covmat = R, factors = size$m, n.obs = size$n, rotation = "promax")$loadings), "default.csv")
write(matrix(c(fit$uniquenesses, fit$STATISTIC, fit$dof), nrow = 1), "fit.csv")
