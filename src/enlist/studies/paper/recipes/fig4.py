"""Figure 4: LR, 2NN and CNN on MNIST over local epochs, 10 workers a round, rates 0.1 and 1.

1, 5 and 10 local epochs at p = 5 and p = 1 (the paper does not say which p). It sees local steps help, a little.

Found: as with all workers, for the 2NN and the CNN; LR is worse with more of them. 78 runs, 5 seeds (CNN 3): 1.8
device minutes on one H200.
"""

from enlist.studies.paper.recipe import PARTIAL_COHORT
from enlist.studies.paper.recipes.fig3 import over_epochs

RECIPE = over_epochs("fig4", PARTIAL_COHORT)
