"""Figure 7: how the seconds to 75% on CIFAR-10 split into computing and sending, FedAvg beside SCAFFOLD.

The runs are table 2's rows of CIFAR-10; computing is measured, sending takes MiB / 20. The paper sees SCAFFOLD
compute less, on skewed data, and send for longer.

Found: no run comes to 75% in 100 rounds. To 99% of what all runs come to, SCAFFOLD takes a third fewer rounds on
i.i.d. data, on two shards a worker as many with one seed and fewer with the other; it takes 1.3 and 1.8 times the
seconds, nearly all of them for sending: an H200 computes a worker's round in 0.1 s. 8 runs, 2 seeds: 5.4 device
minutes on one H200.
"""

from enlist.studies.paper.recipe import Recipe
from enlist.studies.paper.recipes.table2 import cifar_runs

RECIPE = Recipe("fig7", "CIFAR-10: seconds of computing and of sending to 75%", cifar_runs, timed=True)
