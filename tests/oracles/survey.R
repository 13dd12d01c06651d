# Means and standard errors by R's package survey, for test_survey.py.
# Usage: Rscript survey.R FOLDER. Reads the samples that the test wrote there and the package's own example data, and
# writes results.csv (case, estimate, se) and the example populations, so that no number of the package is copied here.
suppressPackageStartupMessages(library(survey))
folder <- commandArgs(trailingOnly = TRUE)[1]
results <- data.frame()
note <- function(case, found) {
  results <<- rbind(results, data.frame(case = case, estimate = coef(found), se = as.vector(SE(found))))
}
read <- function(name) read.csv(file.path(folder, name))
write <- function(table, name) write.csv(table, file.path(folder, name), row.names = FALSE)

# -- samples that aliquot drew: y judged, pi inclusion probability, N items ------------------------------------
srs <- read("srs.csv")
design <- svydesign(id = ~1, fpc = ~N, data = srs)
note("srs", svymean(~y, design))
totals <- c(`(Intercept)` = srs$N[1], x = srs$total[1])
note("calibrated", svymean(~y, calibrate(design, ~x, totals)))
note("fixed slopes", svymean(~I(y - 0.7 * (x - total / N)), design))

strata <- read("stratified.csv")
note("stratified", svymean(~y, svydesign(id = ~1, strata = ~stratum, fpc = ~stratum_N, data = strata)))

documents <- read("documents.csv")
by_document <- svydesign(id = ~document, fpc = ~pi, data = documents)
note("documents", svymean(~y, by_document))

unequal <- read("unequal.csv")
by_unequal <- svydesign(id = ~document, fpc = ~pi, data = unequal)
note("unequal documents", svymean(~y, by_unequal))
note("unequal documents, jackknife", svymean(~y, as.svrepdesign(by_unequal, type = "JK1")))

pps <- read("pps.csv")
note("pps", svymean(~y, svydesign(id = ~1, fpc = ~pi, data = pps, pps = "brewer")))

ordered <- read("ordered.csv")
note("ordered", svymean(~y, svydesign(id = ~1, fpc = ~N, data = ordered)))

# -- the examples of the manual (?api, ?svymean, ?calibrate, ?election) ---------------------------------------------
data(api)
data(election)
write(apipop[c("cds", "stype", "dnum", "api00", "api99")], "apipop.csv")
write(apisrs["cds"], "apisrs.csv")
write(apistrat[c("cds", "stype", "fpc")], "apistrat.csv")
write(apiclus1[c("cds", "dnum", "fpc")], "apiclus1.csv")
write(election_pps[c("Bush", "Kerry", "Nader", "p")], "election_pps.csv")
dsrs <- svydesign(id = ~1, fpc = ~fpc, data = apisrs)
note("apisrs", svymean(~api00, dsrs))
note("apisrs, api99", svymean(~api00, calibrate(dsrs, ~api99, c(`(Intercept)` = nrow(apipop), api99 = sum(apipop$api99)))))
note("apistrat", svymean(~api00, svydesign(id = ~1, strata = ~stype, weights = ~pw, data = apistrat, fpc = ~fpc)))
dclus1 <- svydesign(id = ~dnum, weights = ~pw, data = apiclus1, fpc = ~fpc)
note("apiclus1", svymean(~api00, dclus1))
note("apiclus1, jackknife", svymean(~api00, as.svrepdesign(dclus1, type = "JK1")))
dpps <- svydesign(id = ~1, fpc = ~p, data = election_pps, pps = "brewer")
for (name in c("Bush", "Kerry", "Nader")) note(paste("election,", name), svytotal(as.formula(paste("~", name)), dpps))

results$estimate <- format(results$estimate, digits = 15)
results$se <- format(results$se, digits = 15)
write(results, "results.csv")
