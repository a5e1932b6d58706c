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
# # Why was this run slow?

# %% [markdown] tags=["notebook-only"]
# One run, one verdict: is it the network, a straggler, the schedule or the host? Change the parameters and run all cells; `netlab report PATH` and
# `papermill run_report.ipynb out.ipynb -p run PATH` do the same.

# %% tags=["parameters"]
run: str = "data/gpu-16rank"  # folder or file with traces, logs, counters
threshold: str = ""  # limit of the network share, 0 to 1, such as 0.25; empty: the one of the run's configuration, else 0.25
stored: str = ""  # folder of a finished report: its tables and verdict are taken, nothing is computed again
config: str = ""  # a netlab.toml beside the one of the run
steps: str = ""  # half-open range such as 12:20
ranks: str = ""  # such as 0,8-15
png: bool = False  # also store a picture of every chart, for viewers without Vega

# %%
from netlab import figures, report

report.check_parameters()
figures.enable(png=png)
study = report.Study.load(run, threshold, stored=stored, config=config, steps=steps, ranks=ranks)

# %%
report.card(study)

# %% [markdown]
# ## Data quality
#
# What was read, what is missing, and every doubt about it. Figures below are as good as this.

# %%
report.data_quality(study)

# %% [markdown]
# ## Evidence
#
# Where the time went, and what says so. Each title is what the chart shows; the data stands below it and in `tables/`.

# %%
report.exhibit(study, "comparison")

# %%
report.exhibit(study, "compute-by-rank")

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

# %%
report.exhibit(study, "bus-bandwidth")

# %%
report.exhibit(study, "transfer-tails")

# %%
report.exhibit(study, "rank-pairs")

# %%
report.exhibit(study, "communicators")

# %%
report.exhibit(study, "nic-use")

# %%
report.exhibit(study, "nccl-errors")

# %%
report.exhibit(study, "counter-coverage")

# %%
report.exhibit(study, "fabric")

# %%
report.exhibit(study, "accused-link")

# %%
report.exhibit(study, "links")

# %%
report.exhibit(study, "links-over-time")

# %%
report.exhibit(study, "traffic-course")

# %%
report.exhibit(study, "traffic-classes")

# %%
report.exhibit(study, "host-traffic")

# %%
report.exhibit(study, "clocks")

# %% [markdown]
# ## What if
#
# What a change would bring, computed by replaying the measured step, with its interval.

# %%
report.exhibit(study, "what-if")

# %%
report.what_if(study)

# %% [markdown]
# ## Actions
#
# Findings, the one that costs most first.

# %%
report.findings(study)

# %% [markdown]
# ## Provenance
#
# What is needed to make this report again.

# %%
report.provenance(study)
