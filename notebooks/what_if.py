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
# # What would help?
#
# The run is replayed from its own dependency graph with changed costs. Every answer stands beside the replay's error on the unchanged run.
# Change the parameters and run all cells, or `papermill what_if.ipynb out.ipynb -p run PATH -p scenarios scenarios.toml`.

# %% tags=["parameters"]
run: str = "data/gpu-16rank"  # folder or file with traces
scenarios: str = ""  # a scenario file; empty: scenarios.toml beside the inputs, else the built-in questions
config: str = ""  # a netlab.toml beside the one of the run (declared link rates, price per GPU-hour)
png: bool = False  # also store a picture of every chart, for viewers without Vega

# %%
import netlab
from netlab import figures, report

report.check_parameters()
figures.enable(png=png)
opened = netlab.open(*report.run_paths(run), config=config or None)
answers = netlab.what_if(opened, report.questions(run, scenarios))
report.baseline(answers)

# %% [markdown]
# ## All scenarios against the measured step
#
# Sorted by gain. The thin line is where the step lies in 95 of 100 cases.

# %%
report.scenarios(answers)

# %% [markdown]
# ## What each answer needs and assumes
#
# Refused answers say what is missing. `answers.frame()` has them as a table of polars.

# %%
report.assumptions(answers)

# %% [markdown]
# ## What the best one hangs on
#
# Every assumption moved alone, from one end of what is plausible to the other. The widest bar is what to find out first.

# %%
best = figures.best_scenario(figures.scenario_frame(answers.to_dict()["scenarios"]))
found = None if best is None else netlab.sensitivity(opened, answers.question(best["name"]))
report.sensitivity(found)

# %%
report.pays_if(found)

# %% [markdown]
# ## Ask your own
#
# Changes of one scenario are replayed together, never multiplied.

# %%
from netlab.whatif import Compression, Scenario, Straggler

mine = Scenario(name="bf16 gradients and no straggler", changes=(Compression(method="bf16"), Straggler(rank="all")))
report.assumptions(netlab.what_if(opened, [mine]))
