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
png: bool = False  # also store a picture of every chart, for viewers without Vega

# %%
from netlab import figures, report

report.check_parameters()
figures.enable(png=png)
study = report.Study.compare(base, run, threshold)

# %%
report.card(study)

# %%
report.exhibit(study, "comparison")

# %% [markdown]
# ## Causes
#
# What differs between the runs, the one that costs most first.

# %%
report.findings(study)

# %% [markdown]
# ## Data quality of the slow run

# %%
report.data_quality(study)

# %% [markdown]
# ## Where the slow run's time went

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
# ## Provenance

# %%
report.provenance(study)
