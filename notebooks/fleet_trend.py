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
# # Are runs getting worse?

# %% [markdown] tags=["notebook-only"]
# Every `verdict.json` under a folder of reports, oldest to newest. `netlab history DIR` makes the same page, and
# `papermill fleet_trend.ipynb out.ipynb -p folder reports` runs it by itself.

# %% tags=["parameters"]
folder: str = "reports"  # the folder that holds the reports
stored: str = ""  # a history.parquet of an earlier run: nothing is collected again
png: bool = False  # also store a picture of every chart, for viewers without Vega

# %%
from netlab import figures, report

report.check_parameters()
figures.enable(png=png)
trend = report.Trend.load(folder, stored)

# %%
report.trend_card(trend)

# %% [markdown]
# ## Runs
#
# Each run's newest report against its own past. Worse is said only beyond noise, at the 1 % level over all runs together, with five earlier
# reports or more.

# %%
report.trend_runs(trend)

# %% [markdown]
# ## Over time

# %%
report.trend_exhibit(trend, "network_share")

# %%
report.trend_exhibit(trend, "iteration_ms")

# %%
report.trend_exhibit(trend, "wait_share")

# %% [markdown]
# ## Clusters
#
# The median over the runs of a day: a cluster that gets worse moves as a whole, a job by itself.

# %%
report.trend_clusters(trend)
