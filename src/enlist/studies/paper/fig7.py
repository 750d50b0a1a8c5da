"""Figure 7: how the seconds to 75% on CIFAR-10 split into computing and sending, FedAvg beside SCAFFOLD.

The runs are table 2's rows of CIFAR-10; computing is measured, sending takes MiB / 20. The paper sees SCAFFOLD
compute less, on skewed data, and send for longer.
"""

from enlist.studies.paper.recipe import Recipe
from enlist.studies.paper.table2 import cifar_runs

RECIPE = Recipe("fig7", "CIFAR-10: seconds of computing and of sending to 75%", cifar_runs, timed=True)
