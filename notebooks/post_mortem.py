# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # What changed since the good run?

# %% [markdown] tags=["notebook-only"]
# A slow run beside a good one, aligned by step and by collective. `netlab compare BASE RUN` makes a report of it, and
# `papermill post_mortem.ipynb out.ipynb -p base GOOD -p run SLOW` runs this notebook by itself.

# %% tags=["parameters"]
base: str = "data/gpu-16rank"  # the good run
run: str = "data/gpu-16rank"  # the slow run
threshold: str = ""  # limit of the network share, 0 to 1; empty: the one of the run's configuration, else 0.25
stored: str = ""  # folder of a finished comparison: nothing is read or computed again
png: bool = False  # also store a picture of every chart, for viewers without Vega

# %%
from netlab import figures, report

report.check_parameters()
figures.enable(png=png)
study = report.Study.compare(base, run, threshold, stored=stored)

# %%
report.card(study)

# %%
report.exhibit(study, "comparison")

# %% [markdown]
# ## What changed
#
# The part that costs most first; the parts of the step add up to its change.

# %%
report.changes(study)

# %% [markdown]
# ## Steps

# %%
report.exhibit(study, "compared-steps")

# %% [markdown]
# ## Collectives

# %%
report.exhibit(study, "compared-collectives")

# %% [markdown]
# ## Ranks

# %%
report.exhibit(study, "compared-ranks")

# %% [markdown]
# ## Causes
#
# The first finding names the change. The others are those of the slow run by itself.

# %%
report.findings(study)

# %% [markdown]
# ## Links

# %%
report.exhibit(study, "links-over-time")

# %%
report.exhibit(study, "accused-link")

# %% [markdown]
# ## Comparable
#
# What both runs allow to compare, what they do not, and what to record for it.

# %%
report.comparable(study)

# %% [markdown]
# ## Data quality
#
# Of the slow run.

# %%
report.data_quality(study)

# %% [markdown]
# ## The slow run
#
# Where its time went.

# %%
report.exhibit(study, "attribution")

# %%
report.exhibit(study, "share-per-step")

# %%
report.exhibit(study, "heat-strip")

# %%
report.exhibit(study, "worst-step")

# %%
report.exhibit(study, "who-waits-for-whom")

# %% [markdown]
# ## What-if

# %%
report.exhibit(study, "what-if")

# %%
report.what_if(study)

# %% [markdown]
# ## Provenance

# %%
report.provenance(study)
