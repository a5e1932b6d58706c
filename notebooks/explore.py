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
# # Explore a run

# %% [markdown] tags=["notebook-only"]
# A guided walk: open a run, narrow it to some ranks and steps, look at its timeline, take its tables. Change the parameters and run all cells.

# %% tags=["parameters"]
run: str = "data/gpu-16rank"  # folder or file with traces, logs, counters
threshold: str = ""  # limit of the network share, 0 to 1; empty: the one of the run's configuration, else 0.25
steps: str = ""  # half-open range such as 12:20
ranks: str = ""  # such as 0,8-15
png: bool = False  # also store a picture of every chart, for viewers without Vega

# %%
from netlab import figures, report

report.check_parameters()
figures.enable(png=png)
study = report.Study.load(run, threshold, steps=steps, ranks=ranks)
report.card(study)

# %% [markdown]
# ## What is there
#
# A run is a cupboard of tables. `study.run.frame(name)` gives a polars frame, `study.run.pandas(name)` a pandas one.

# %%
study.run

# %% [markdown]
# ## Ranks and steps
#
# Drag over the upper chart: the lower one follows.

# %%
report.explorer(study)

# %% [markdown]
# ## Timeline
#
# The whole run, then the worst step exactly. To look at other steps or ranks, set the parameters above and run again.

# %%
report.exhibit(study, "heat-strip")

# %%
report.exhibit(study, "worst-step")

# %% [markdown]
# ## Collectives
#
# Slowest first: who came last, and how long the others waited.

# %%
report.slowest_collectives(study)

# %%
report.exhibit(study, "who-waits-for-whom")

# %%
report.exhibit(study, "bus-bandwidth")

# %% [markdown]
# ## Findings

# %%
report.findings(study)
