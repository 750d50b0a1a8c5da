"""Bad input: one line that says what was given and what is allowed, exit code 2, and nothing written."""

import hashlib
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from enlist.cli import main

# Everything a run needs but what a case gets wrong. No network is touched.
RUN = "run --dataset digits --model logistic --workers 20 --rounds 1 --out new"
OWN = "run --model logistic --workers 4 --cohort 2 --rounds 1 --out new --dataset"
MODEL = "run --dataset digits --workers 20 --rounds 1 --out new --model"

WORDS = [
    ("runn", "unknown command 'runn': did you mean 'run'?"),
    ("--rounds 3", "unknown command '--rounds': "),
    ("run --roundz 3", "unknown option --roundz: did you mean --rounds?"),
    ("run --workerlr 0.1", "did you mean --worker-lr?"),
    ("run --zzz", "unknown option --zzz: --help lists them all"),
    ("run -x", "unknown option -x"),
    ("run -xjson", "unknown option -xjson"),
    ("run -- 3", "unknown option --:"),
    ("run 3", "'3' belongs to no option"),
    ("run --json yes", "'yes' belongs to no option"),
    ("run --json=yes", "--json takes no value: leave out =yes"),
    ("run --rounds", "--rounds needs a value after it: a whole number"),
    ("run --rounds=", "--rounds needs a value after it"),
    ("run --out --json", "--out needs a value after it"),
    ("run --rounds 1.5", "rounds = 1.5: must be a whole number"),
    ("run --rounds 1e3", "rounds = 1e3: must be a whole number"),
    ("run --cohort ten", "cohort = ten: must be a whole number"),
    ("run --worker-lr abc", "worker-lr = abc: must be a number"),
    ("run --worker-lr 0,1", "worker-lr = 0,1: must be a number"),
    ("run --rounds none", "rounds = none: must be a whole number"),
]

REPRODUCE = [
    ("reproduce", "reproduce: name a figure or a table, for instance: enlist reproduce fig1"),
    ("reproduce fig8", "unknown figure or table 'fig8': did you mean 'fig7'? Known: fig1, fig2"),
    ("reproduce tabel2 --out new", "unknown figure or table 'tabel2': did you mean 'table2'?"),
    ("reproduce fig1 --scale ful --out new", "unknown scale 'ful': did you mean 'full'? Known: small, full"),
    ("reproduce fig1 --scael full", "unknown option --scael: did you mean --scale?"),
    ("reproduce fig1 --out done", "out = done: that folder holds something else; name a new one"),
    ("reproduce fig1 --out good.npz", "out = good.npz: that is a file; name a folder"),
    ("reproduce verdicts", "verdicts: there is no results/paper here; name the folder of a reproduction"),
    ("reproduce verdicts --out done", "out = done: holds no reproduction (it has no reproduce.yaml)"),
    ("reproduce verdicts fig1", "reproduce verdicts fig1: verdicts runs nothing"),
]

METHODS = [
    (f"run --dataset digits --rounds 1 --out new --algorithm {rest}", says)
    for rest, says in (
        ("scafold", "unknown algorithm 'scafold': did you mean 'scaffold'?"),
        ("fedavg --mu 0.1", "mu = 0.1: fedavg has no such option"),
        ("fedprox --mu -1", "mu = -1: must be 0 or more"),
        ("scaffold --worker-optimizer adam", "worker-optimizer = adam: scaffold has no such option"),
        ("scaffold --variates III", "unknown option for variates 'III'"),
        ("scaffold --sampling with-replacement --model logistic", "use without-replacement"),
        ("fedavgm --momentum 1", "momentum = 1: must be from 0 to below 1"),
        ("fedadam --beta1 nan", "beta1 = nan: must be from 0 to below 1"),
        ("fedyogi --tau 0", "tau = 0: must be above 0"),
        ("cooperative --mixing rign", "unknown mixing 'rign': did you mean 'ring'?"),
        ("cooperative --server-lr 0.5", "server-lr = 0.5: cooperative has no such option"),
        (
            "cooperative --sampling with-replacement --model logistic",
            "cooperative keeps a state for each worker",
        ),
        ("elastic --elasticity 2", "elasticity = 2: must be above 0 and at most 1"),
        ("adaptive --budget 0.1", "budget = 0.1: must pay for two rounds of one step"),
        ("adaptive --step-seconds 0", "step-seconds = 0: must be above 0"),
        ("adaptive --round-seconds -1", "round-seconds = -1: must be 0 or more"),
        ("adaptive --phi inf", "phi = inf: must be above 0"),
        ("slowmo --buffers keep", "unknown option for buffers 'keep'"),
        ("slowmo --server-optimizer adam", "server-optimizer = adam: slowmo has no such option"),
        (
            "slowmo --buffers maintain --worker-optimizer adam --sampling with-replacement --model logistic",
            "use without-replacement",
        ),
        ("local-momentum --momentum -1", "momentum = -1: must be from 0 to below 1"),
        ("fednova --weighting rows", "unknown weighting 'rows'"),
        ("feddyn --alpha 0", "alpha = 0: must be above 0"),
        ("feddyn --server-lr 1", "server-lr = 1.0: feddyn has no such option"),
        ("mimelite --momentum 1", "momentum = 1: must be from 0 to below 1"),
    )
]

NUMBERS = [
    (f"{RUN} --rounds -1", "rounds = -1: must be 0 or more"),
    (f"{RUN} --rounds 2147483648", "rounds = 2147483648: must be 2147483647 or less"),
    (f"{RUN} --rounds {'9' * 400}", "must be 2147483647 or less"),
    (f"{RUN} --rounds {'9' * 5000}", "must be a whole number"),
    (f"{RUN} --workers 0", "workers = 0: must be 1 or more"),
    (f"{RUN} --workers 2000", "workers = 2000: digits has rows for 1 to 1437 workers"),
    (f"{RUN} --workers 9999999999", "workers = 9999999999: must be 2147483647 or less"),
    (f"{RUN} --dataset synthetic --workers 1000000", "synthetic: workers is 1000000: "),
    (f"{RUN} --cohort 0", "cohort = 0: must be 1 or more"),
    (f"{RUN} --cohort 21", "cohort = 21 is more than the 20 workers there are: choose 1 to 20"),
    (f"{RUN} --cohort 9999999 --sampling with-replacement", "cohort = 9999999: must be 1000000 or less"),
    (f"{RUN} --cohort 5 --sampling full", "cohort = 5: with --sampling full all 20 workers take part"),
    (f"{RUN} --cohort-most 5", "cohort-most = 5 belongs to --sampling at-least"),
    (f"{RUN} --sampling at-least --cohort 5 --cohort-most 4", "largest cohort (4) must not be below"),
    (f"{RUN} --sampling at-least --cohort 5 --cohort-most 21", "is more than the 20 workers there are"),
    (f"{RUN} --sampling at-least --cohort-most 0", "cohort-most = 0: must be 1 or more"),
    (f"{RUN} --sampling recorded", "unknown sampling 'recorded': did you mean 'recorded:FILE'?"),
    (f"{RUN} --sampling recorded:", "sampling recorded:: a file is missing: write recorded:FILE"),
    (f"{RUN} --sampling recorded:nowhere.jsonl", "sampling recorded:nowhere.jsonl: no such file"),
    (f"{RUN} --sampling recorded:empty", "sampling recorded:empty: cannot be read (Is a directory)"),
    (f"{RUN} --sampling recorded:torn.yaml", "torn.yaml: damaged, line 1 is not a round's cohort such as"),
    (f"{RUN} --sampling recorded:gap.jsonl", "gap.jsonl: line 2 is of round 2, where round 1 should be"),
    (f"{RUN} --sampling recorded:nobody.jsonl", "sampling recorded: round 0 has no worker"),
    (
        f"{RUN} --sampling recorded:far.jsonl",
        "sampling recorded: round 0 names worker 20, but workers are 0 to 19 here",
    ),
    (
        f"{RUN} --sampling recorded:one.jsonl --rounds 2",
        "rounds = 2: the record of cohorts ends after 1; choose 0 to 1",
    ),
    (
        f"{RUN} --sampling recorded:one.jsonl --cohort 5",
        "cohort = 5: with --sampling recorded:one.jsonl it is recorded who takes part; leave --cohort out",
    ),
    (
        f"{RUN} --sampling recorded:one.jsonl --cohort-most 5",
        "belongs to --sampling at-least, not to recorded:",
    ),
    (
        f"{RUN} --sampling recorded:twice.jsonl --algorithm scaffold",
        "scaffold keeps a state for each worker, which sampling recorded:",
    ),
    *(
        (f"{RUN} --{rate} {value}", f"{rate} = {said}")
        for rate in ("worker-lr", "server-lr")
        for value, said in [
            ("0", "0: a learning rate must be above 0"),
            ("-0.1", "-0.1: a learning rate must be above 0"),
            ("-1e-3", "-0.001: a learning rate must be above 0"),
            ("nan", "nan: must be a finite number"),
            ("inf", "inf: must be a finite number"),
            ("-inf", "-inf: a learning rate must be above 0"),
            ("1e-60", "1e-60: must be 1e-37 or more"),
            ("1e300", "1e+300: must be 1e+37 or less"),
        ]
    ),
    (f"{RUN} --local-epochs 0", "local-epochs = 0: must be 1 or more"),
    (f"{RUN} --local-steps 0", "local-steps = 0: must be 1 or more"),
    (f"{RUN} --local-steps 2 --local-epochs 2", "local-steps and local-epochs are both given"),
    (f"{RUN} --local-epochs 2000000000", "local-epochs = 2000000000: choose 1 to "),
    (f"{RUN} --local-steps 2000000000", "local-steps = 2000000000: choose 1 to 26843545"),
    (
        f"{RUN} --local-schedule x",
        "local-schedule 'x': give ROUND:AMOUNT, several with commas, for instance 50:16",
    ),
    (f"{RUN} --local-schedule 5", "local-schedule '5': give ROUND:AMOUNT"),
    (f"{RUN} --local-schedule 0:2", "local-schedule: its rounds must ascend from 1 on, not [0]"),
    (f"{RUN} --local-schedule 9:2,5:3", "local-schedule: its rounds must ascend from 1 on, not [9, 5]"),
    (
        f"{RUN} --local-schedule 99999999999:2",
        "local-schedule: round 99999999999 is too far: 2147483647 at most",
    ),
    (f"{RUN} --local-schedule 5:0", "local-schedule: 0 local-epochs: a worker must do at least 1"),
    (f"{RUN} --local-schedule 5:2000000000", "local-epochs = 2000000000: choose 1 to "),
    (f"{RUN} --worker-decay 0", "worker-decay = 0: must be above 0"),
    (f"{RUN} --worker-decay -2", "worker-decay = -2: must be above 0"),
    (f"{RUN} --worker-decay nan", "worker-decay = nan: must be a finite number"),
    (f"{RUN} --batch -1", "batch = -1: must be 0 or more"),
    (f"{RUN} --batch 100000", "batch = 100000: digits has 1437 training rows; choose 1 to 1437, or 0"),
    (f"{RUN} --seed -1", "seed = -1: must be 0 or more"),
    (f"{RUN} --seed 4294967296", "seed = 4294967296: must be 4294967295 or less"),
    (f"{RUN} --eval-every 0", "eval-every = 0: must be 1 or more"),
    (f"{RUN} --eval-every 99999999999", "eval-every = 99999999999: must be 2147483647 or less"),
    (f"{RUN} --checkpoint-every -1", "checkpoint-every = -1: must be 0 or more"),
    (f"{RUN} --devices -1", "devices = -1: must be 0 or more"),
    (f"{RUN} --devices 99", "devices = 99: this machine has 4; type --devices 0"),
    (f"{RUN} --target nan", "target = nan: must be a finite number"),
    (f"{RUN} --target 95", "target = 95: an accuracy is above 0 and at most 1, for instance 0.95"),
    (f"{RUN} --target 0", "target = 0: an accuracy is above 0"),
    (f"{RUN} --bandwidth 0", "bandwidth = 0: must be above 0"),
    (f"{RUN} --bandwidth inf", "bandwidth = inf: must be a finite number"),
    (f"{RUN} --bandwidth 1e-300", "bandwidth = 1e-300: must be 1e-37 or more"),
    (f"{RUN} --uplink 0", "uplink = 0: must be above 0"),
    (f"{RUN} --uplink nan", "uplink = nan: must be a finite number"),
    (f"{RUN} --downlink -3", "downlink = -3: must be above 0"),
    (f"{RUN} --downlink 1e300", "downlink = 1e+300: must be 1e+37 or less"),
    (f"{RUN} --latency -1", "latency = -1: must be 0 or more"),
    (f"{RUN} --latency inf", "latency = inf: must be a finite number"),
    (f"{RUN} --augment crop_flip", "unknown augment 'crop_flip'"),
    (
        f"{RUN} --augment flip --dataset synthetic:1,1",
        "augment does not fit synthetic(1,1): images [height, width, ",
    ),
    (f"{RUN} --share-data -0.1", "share-data = -0.1: must be 0 or more"),
    (f"{RUN} --share-data 5", "share-data = 5: must be 1 or less"),
    (f"{RUN} --share-data 1", "share-data = 1: must be above 0 and below 1"),
    (f"{RUN} --share-data 0.999", "share-data = 0.999: digits has only "),
    (f"{RUN} --share-data 0.9 --workers 200", "workers = 200: digits has rows for 1 to 144 workers"),
    (f"{RUN} --share-data 0.1 --share-portion 0", "share-portion = 0: must be above 0 and at most 1"),
    (f"{RUN} --share-data 0.1 --share-portion 2", "share-portion = 2: must be 1 or less"),
    (f"{RUN} --share-portion 0.5", "share-portion = 0.5 belongs to --share-data"),
    (f"{RUN} --worker-seconds -1", "worker-seconds = -1: must be 0 or more"),
    (f"{RUN} --worker-seconds nan", "worker-seconds = nan: must be a finite number"),
]

NAMES = [
    (f"{RUN} --dataset digitz", "unknown dataset 'digitz': did you mean 'digits'?"),
    (f"{RUN} --dataset digits:2", "digits takes nothing after a colon"),
    (f"{RUN} --dataset mnist:standart", "unknown scaling of mnist 'standart': did you mean 'standard'?"),
    (f"{RUN} --model cnn+start=unifrom", "unknown start of cnn 'unifrom': did you mean 'uniform'?"),
    (f"{RUN} --dataset synthetic:1", "two numbers are needed, such as synthetic:1,1"),
    (f"{RUN} --dataset synthetic:1,nan", "synthetic: beta is nan"),
    (f"{RUN} --model logistc", "unknown model 'logistc': did you mean 'logistic'?"),
    (f"{RUN} --model cnn", "it needs images [height, width, channels] of at least 16 x 16"),
    (f"{RUN} --partition idd", "unknown partition 'idd': did you mean 'iid'?"),
    (f"{RUN} --partition iid:3", "iid takes no number"),
    (f"{RUN} --partition digits", "write a number after the colon, for example digits:2"),
    (f"{RUN} --partition digits:two", "write a number after the colon, for example digits:2"),
    (f"{RUN} --partition digits:11", "classes a worker must be from 1 to 10"),
    (f"{RUN} --partition digits:0", "classes a worker must be from 1 to 10"),
    (f"{RUN} --partition digits:1 --workers 15", "the number of workers must be a multiple of 10"),
    (f"{RUN} --partition digits:10 --workers 1000", "the smallest class of digits has"),
    (f"{RUN} --partition shards:100", "shards a worker must be from 1 to 71 for 20 workers"),
    (f"{RUN} --partition dirichlet:0", "the concentration must be a number above 0"),
    (f"{RUN} --partition dirichlet:nan", "the concentration must be a number above 0"),
    (f"{RUN} --partition dirichlet:1e308", "the concentration must be a number above 0, at most 1e100"),
    (f"{RUN} --partition quantity:-1", "the power must be a number above 0"),
    (f"{RUN} --partition by-key", "digits does not say who holds which row (it has no array 'worker')"),
    (f"{RUN} --sampling without-replacment", "did you mean 'without-replacement'?"),
    (f"{RUN} --algorithm fedavgg", "unknown algorithm 'fedavgg': did you mean 'fedavg'?"),
    (f"{RUN} --worker-optimizer adm", "unknown worker-optimizer 'adm': did you mean 'adam'?"),
    (f"{RUN} --server-optimizer sdg", "unknown server-optimizer 'sdg': did you mean 'sgd'?"),
    (f"{RUN} --weighting example", "unknown weighting 'example': did you mean 'examples'?"),
    (f"{RUN} --precision fp32", "unknown precision 'fp32': "),
    (f"{RUN} --execution batched", "execution 'batched': choose auto, batch, one-by-one, or chunk:N"),
    (f"{RUN} --execution chunk:0", "execution 'chunk:0': choose"),
    (f"{RUN} --workers 400 --partition shards:1 --worker-accuracy", "worker-accuracy: digits by shards:1"),
]

CODECS = [
    (f"{RUN} --{rest}", says)
    for rest, says in (
        ("compress topq:0.1", "unknown codec 'topq': did you mean 'topk'?"),
        ("compress-down sing", "unknown codec 'sing': did you mean 'sign'?"),
        ("compress topk", "topk: write a number after the colon, for example topk:0.01"),
        ("compress randk:few", "randk:few: write a number after the colon, for example randk:0.01"),
        ("compress topk:0", "topk:0: give a share above 0 and at most 1 or a whole number of entries"),
        ("compress ternary:-3", "ternary:-3: give a share above 0"),
        ("compress topk:nan", "topk:nan: give a share above 0"),
        ("compress topk:inf", "topk:inf: give a share above 0"),
        ("compress randk:1.5", "randk:1.5: give a share above 0 and at most 1 or a whole number"),
        ("compress topk:651", "topk:651: the vector to send has only 650 entries; choose 2 to 650"),
        ("compress-down ternary:9e9", "ternary:9000000000: the vector to send has only 650 entries"),
        ("compress sign:2", "sign:2: sign takes nothing after a colon"),
        ("compress qsgd:3", "qsgd:3: an entry takes 2, 4 or 8 bits, for example qsgd:4"),
        ("compress qsgd:x", "qsgd:x: write 2, 4 or 8 bits after the colon"),
        ("error-feedback on", "error-feedback = on: workers' messages leave nothing out; give"),
        ("error-feedback off --compress-down sign", "error-feedback = off: workers' messages leave nothing"),
        ("error-feedback yes --compress sign", "unknown error-feedback 'yes'"),
        ("compress sign --sampling with-replacement", "fedavg+sign keeps a state for each worker"),
    )
]

DATA = [
    (f"{OWN} missing.npz", "missing.npz: no such file"),
    (f"{OWN} empty", "empty: x_train.npy missing"),
    (f"{OWN} text.npz", "text.npz: not a readable .npz (neither a zip archive nor an array); make it"),
    (f"{OWN} torn.npz", "torn.npz: "),
    (f"{OWN} array.npz", "array.npz: a single array; make a .npz with numpy.savez"),
    (f"{OWN} few.npz", "few.npz: y_test missing; it holds x_train, y_train, x_test"),
    (f"{OWN} lengths.npz", "lengths.npz: x_train has 40 rows but y_train has 39"),
    (f"{OWN} nan.npz", "nan.npz: x_test holds NaN"),
    (f"{OWN} objects.npz", "objects.npz: y_train holds Python objects (a pickle)"),
    (f"{OWN} negative.npz", "negative.npz: labels go from -1 to 3: number the classes 0, 1, 2, ..."),
    (f"{OWN} shapes.npz", "shapes.npz: an example has shape (3,) in x_train but (4,) in x_test"),
    (f"{OWN} words.npz", "words.npz: y_train is <U3: it must hold real numbers"),
    (f"{OWN} mixed.npz", "mixed.npz: y_train is int64 but y_test is float64"),
    (f"{OWN} half.npz", "half.npz: x_train is uint8 but x_test is float64: uint8 are pixels"),
    (f"{OWN} flat.npz", "flat.npz: x_train has shape (40,)"),
    (f"{OWN} none.npz", "none.npz: x_test is empty"),
    (f"{OWN} holders.npz", "holders.npz: worker has 3 entries for 40 rows"),
    (f"{OWN} good.npz --partition by-key", "good does not say who holds which row"),
    (f"{OWN} keyed.npz --workers 7", "workers = 7: keyed.npz names 5 holders"),
    (f"{OWN} keyed.npz --workers 5 --cohort 6", "cohort = 6 is more than the 5 workers"),
    (f"{OWN} keyed.npz --workers 5 --worker-accuracy", "names their holders in worker_test"),
    (
        f"{OWN} numbers.npz",
        "numbers has numbers to predict, not classes, but model logistic predicts classes",
    ),
    (f"{OWN} numbers.npz --partition digits:2", "digits needs class labels, but numbers is a regression"),
    (f"{OWN} good.npz --partition digits:5", "classes a worker must be from 1 to 4"),
]

MODELS = [
    (f"{MODEL} missing.py:make", "model file missing.py cannot be read: No such file"),
    (f"{MODEL} models.py", "model 'models.py' names a file but no function: type models.py:FUNCTION"),
    (f"{MODEL} models.py:", "models.py has no function ''"),
    (f"{MODEL} models.py:nothing", "models.py has no function 'nothing'"),
    (f"{MODEL} models.py:boom", "models.py:boom failed: RuntimeError: no weights today"),
    (f"{MODEL} models.py:number", "models.py:number failed: 3 cannot be used as a model"),
    (f"{MODEL} models.py:wide", "fails on inputs of shape"),
    (f"{MODEL} models.py:narrow", "has 4 outputs but digits has 10 classes"),
    (f"{MODEL} models.py:batch_norm", "use GroupNorm or LayerNorm instead of BatchNorm"),
    (f"{MODEL} models.py:nnx_batch_norm", "use GroupNorm or LayerNorm instead of BatchNorm"),
    (f"{MODEL} models.py:dropout", "Dropout"),
    (f"{MODEL} models.py:empty", "has no parameters: there is nothing to learn"),
    (f"{MODEL} models.py:integers", "parameter ['w'] is no float array"),
    (f"{MODEL} broken.py:make", "broken.py cannot be loaded: SyntaxError"),
    (f"{MODEL} exits.py:make", "exits.py:make: the file ended the program (sys.exit(3))"),
]

PROFILES = [
    (f"{RUN} --profile missing.csv", "profile missing.csv: no such file"),
    (f"{RUN} --profile lognormal", "SIGMA must be a number above 0, at most 10, for instance lognormal:0.5"),
    (f"{RUN} --profile lognormal:wide", "SIGMA must be a number above 0"),
    (f"{RUN} --profile lognormal:-1", "SIGMA must be a number above 0"),
    (f"{RUN} --profile lognormal:1e9", "SIGMA must be a number above 0, at most 10"),
    (f"{RUN} --profile lognorml:1", "did you mean lognormal:1? write lognormal:SIGMA"),
    (f"{RUN} --profile good.npz", "profile 'good.npz': write lognormal:SIGMA"),
    *(
        (f"{RUN} --profile {name}.csv", f"{name}.csv: {said}")
        for name, said in [
            ("folder", "cannot be read (Is a directory)"),
            ("binary", "cannot be read (it is no text)"),
            ("void", "empty; its first line must name columns"),
            ("header", "0 rows for 20 workers"),
            ("rows", "2 rows for 20 workers: one for each worker is needed"),
            ("column", "unknown column 'upling': did you mean 'uplink'?"),
            ("twice", "two columns are called 'uplink'"),
            ("nothing", "says nothing of any worker"),
            ("cells", "line 3 has 1 cells for 2 columns"),
            ("word", "line 2: uplink = 'fast': must be a number"),
            ("zero", "line 3: slowness = 0: must be a finite number above 0"),
            ("infinite", "line 2: latency = inf: must be a finite number 0 or more"),
            ("workers", "worker must name each of 0 to 1 once"),
        ]
    ),
    (f"{RUN} --profile all.csv --uplink 3", "uplink is given, but all.csv has a column uplink too"),
]

KEPT = [
    ("run --config missing.yaml", "missing.yaml: no such file"),
    ("run --config empty", "empty: cannot be read"),
    ("run --config torn.yaml", "torn.yaml: cannot be read as YAML"),
    ("run --config text.npz", "text.npz: must hold options as 'name: value' lines"),
    ("run --config bytes.yaml", "bytes.yaml: cannot be read as YAML"),
    ("run --config list.yaml", "list.yaml: must hold options as 'name: value' lines"),
    ("run --config unknown.yaml", "unknown.yaml: unknown option cohrt: did you mean cohort?"),
    ("run --config type.yaml", "type.yaml: rounds = many: must be a whole number"),
    ("run --config nested.yaml", "nested.yaml: rounds = {'a': 1}: must be a whole number"),
    ("run --config null.yaml", "null.yaml: rounds = None: must be a whole number"),
    ("run --config flag.yaml", "flag.yaml: grad_norm = 1: must be true or false"),
    ("run --config range.yaml", "range.yaml: seed = -4: must be 0 or more"),
    ("run --config out.yaml", "out.yaml: unknown option out"),
    (
        "run --config data.yaml --out new",
        "good.npz is not the file it was when this configuration was written",
    ),
    ("run --config model.yaml --out new", "models.py:narrow is not the file it was"),
    ("run --config profile.yaml --out new", "all.csv is not the file it was"),
    ("run --config record.yaml --out new", "recorded:one.jsonl is not the file it was"),
    ("run --config done/config.yaml --out done", "out = done: that folder is not empty; name a new one"),
    ("run --config done/config.yaml --resume done", "resume and config are both given"),
    ("run --resume done --out new", "resume and out are both given"),
    ("run --resume nowhere", "resume nowhere: there is no run in that folder"),
    ("run --resume empty", "resume empty: there is no run in that folder"),
    (
        "run --resume planned",
        "no run in that folder; begin one with: enlist run --config planned/config.yaml",
    ),
    ("run --resume good.npz", "resume good.npz: there is no run in that folder"),
    ("run --resume torn-config", "torn-config/config.yaml: cannot be read as YAML"),
    ("run --resume done --worker-lr 0.3", "resume done: worker-lr is 0.3 now but was 0.1"),
    ("run --resume done --dataset good.npz --workers 4 --cohort 2 --partition iid", "resume done: "),
    ("run --resume done --rounds 0", "resume done: 1 rounds are done already, more than rounds = 0"),
    ("run --resume torn-checkpoint", "torn-checkpoint/checkpoints/1: this checkpoint cannot be read"),
    ("run --resume torn-metrics", "torn-metrics/metrics.jsonl"),
    ("run --resume odd-metrics", "odd-metrics/metrics.jsonl"),
]

OUT = [
    (f"{RUN} --out good.npz", "out = good.npz: that is a file; name a folder"),
    (
        f"{RUN} --out done",
        "out = done: that folder is not empty; name a new one, or go on with --resume done",
    ),
    (f"{RUN} --out good.npz/new", "good.npz is not a folder"),
    (f"{RUN} --out /dev/null/new", "/dev/null is not a folder"),
    (f"{RUN} --out /proc/new", "out = /proc/new: cannot be made a folder"),
    (f"{RUN} --out {'n' * 300}", "no folder can have that name"),
    ("report", "report: name at least one folder of a run"),
    ("report nowhere", "no run at 'nowhere'"),
    ("report empty", "'empty' is not the folder of a run"),
    ("report done nowhere", "no run at 'nowhere'"),
    ("report torn-config", "'torn-config/config.yaml' is damaged"),
    ("report done --out good.npz", "out = good.npz: cannot be made a folder"),
    ("report done --rounds 3", "unknown option --rounds"),
    ("report --runs done", "unknown option --runs"),
    ("speedup --resume empty", "resume empty: there is no speedup study in that folder"),
    ("speedup --resume done --seeds 4", "resume and seeds are both given"),
    ("data", "data: say what to do, for instance: enlist data list"),
    ("data lst", "unknown action 'lst': did you mean 'list'?"),
    ("data list mnist", "data list takes no name"),
    ("data fetch", "data fetch: name one data set"),
    ("data fetch mnist digits", "data fetch: name one data set"),
    ("data fetch mnst", "unknown dataset 'mnst': did you mean 'mnist'?"),
    ("data where nope", "unknown dataset 'nope'"),
]

SWEEP = "sweep --dataset digits --model logistic --workers 20 --rounds 1 --out new"
SWEEPS = [
    (SWEEP, "sweep: nothing differs; give an option several values, such as --worker-lr 0.01,0.1"),
    (f"{SWEEP} --worker-lr 0.1", "or use enlist run"),
    (f"{SWEEP} 0.1", "sweep: '0.1' belongs to no option"),
    (f"{SWEEP} --worker-rl 0.1,1", "unknown option --worker-rl: did you mean --worker-lr?"),
    (
        "sweep --dataset digits,mnist --out new",
        "type it once for each data set: --dataset digits --dataset mnist",
    ),
    (
        "sweep --dataset digits,synthetic:1,1,mnist --out new",
        "type it once for each data set: --dataset digits --dataset synthetic:1,1 --dataset mnist",
    ),
    *(
        (f"{SWEEP} --{rest}", says)
        for rest, says in [
            ("worker-lr 0.1,abc", "worker-lr = abc: must be a number"),
            ("worker-lr 0.1,", "worker-lr = 0.1,: a value is missing beside a comma"),
            ("worker-lr 0.1,1,0.10", "worker-lr: 0.1 is there twice"),
            ("worker-lr 0.1,-1", "worker_lr=-1: worker-lr = -1: a learning rate must be above 0"),
            ("cohort 5,30", "cohort=30: cohort = 30 is more than the 20 workers there are"),
            ("cohort 5,15 --workers 20,10", "workers=10, cohort=15: cohort = 15 is more than the 10 workers"),
            ("batch 10,100000", "batch=100000: batch = 100000: digits has 1437 training rows"),
            (
                "partition iid,digits:11",
                "partition=digits:11: partition digits:11: classes a worker must be from 1",
            ),
            ("dataset digitz", "dataset=digitz: unknown dataset 'digitz': did you mean 'digits'?"),
            ("model logistic,logistc", "model=logistc: unknown model 'logistc': did you mean 'logistic'?"),
            ("model logistic,cnn", "model=cnn: cnn was given examples of shape (8, 8, 1)"),
            ("algorithm fedavg,scafold", "algorithm=scafold: unknown algorithm 'scafold'"),
            ("algorithm fedavg,fedprox --mu 1", "algorithm=fedavg: mu = 1.0: fedavg has no such option"),
            (
                "algorithm fedavg,scaffold --sampling with-replacement",
                "algorithm=scaffold: algorithm scaffold keeps",
            ),
            ("compress sign,topk:9999", "compress=topk:9999: topk:9999: the vector to send has only 650"),
            (
                "local-epochs 1,2 --local-steps 3",
                "local_epochs=1: local-steps and local-epochs are both given",
            ),
            ("precision float32,fp8", "precision=fp8: unknown precision 'fp8'"),
            ("devices 1,99", "devices=99: devices = 99: this machine has 4"),
            ("target 0.5,95", "target=95: target = 95: an accuracy is above 0 and at most 1"),
            ("profile lognormal:1,missing.csv", "profile=missing.csv: profile missing.csv: no such file"),
            ("seeds 0", "seeds = 0: must be from 1 to 1000"),
            ("seeds 2 --seed 0,1", "seed and seeds are both given"),
            ("seeds 1000 --worker-lr 1,2,3,4,5,6,7,8,9,10,11", "sweep: 11,000 runs are more than 10,000"),
            ("worker-lr 1,2 --out done", "out = done: that folder is not empty"),
            ("worker-lr 1,2 --out good.npz", "out = good.npz: that is a file"),
            ("grid missing.yaml", "missing.yaml: no such file"),
            ("grid torn.yaml", "torn.yaml: cannot be read as YAML"),
            ("grid list.yaml", "list.yaml: must hold options as 'name: value' lines"),
            ("grid unknown.yaml", "unknown.yaml: unknown option cohrt: did you mean cohort?"),
            ("grid out.yaml", "out.yaml: unknown option out"),
            ("grid empty-axis.yaml", "empty-axis.yaml: worker_lr = []: an empty list"),
            ("grid commas.yaml", "several values are written as a list: [0.1,1]"),
            ("grid deep.yaml", "deep.yaml: worker_lr = [1]: must be a number"),
            ("grid no-runs.yaml", "no-runs.yaml: runs: must be a list of combinations"),
            ("grid odd-runs.yaml", "odd-runs.yaml: unknown option cohrt: did you mean cohort?"),
            ("grid axis-and-runs.yaml", "cohort is an axis and is in runs too"),
            ("grid same-runs.yaml", "runs: cohort=5 is there twice"),
            ("grid seeds.yaml", "seeds.yaml: seeds = many: must be a whole number"),
            ("grid alike.yaml", "deterministic is the same for all runs of a sweep"),
        ]
    ),
    (
        "sweep --grid hashed.yaml --model logistic --out new",
        "good.npz is not the file it was when this grid was",
    ),
    (
        "sweep --config data.yaml --worker-lr 1,2 --out new",
        "good.npz is not the file it was when this grid was",
    ),
    ("sweep --resume empty", "resume empty: there is no sweep in that folder (it has no sweep.yaml)"),
    ("sweep --resume done", "resume done: there is no sweep in that folder"),
    ("sweep --resume empty --rounds 3", "resume and rounds are both given"),
]

CASES = [
    *WORDS,
    *REPRODUCE,
    *METHODS,
    *NUMBERS,
    *NAMES,
    *CODECS,
    *DATA,
    *MODELS,
    *PROFILES,
    *KEPT,
    *OUT,
    *SWEEPS,
]

MODELS_PY = """
import jax.numpy as jnp
from flax import linen, nnx

def boom():
    raise RuntimeError("no weights today")

def empty():
    return (lambda key: {}), (lambda params, x: jnp.zeros((len(x), 10)))

def number():
    return 3

def wide():
    return (lambda key: {"w": jnp.zeros((99, 10))}), (lambda params, x: x.reshape(len(x), -1) @ params["w"])

def narrow():
    return (lambda key: {"w": jnp.zeros((64, 4))}), (lambda params, x: x.reshape(len(x), -1) @ params["w"])

def integers():
    return (lambda key: {"w": jnp.zeros((64, 10), int)}), (lambda params, x: x.reshape(len(x), -1) @ params["w"])

class Norm(linen.Module):
    @linen.compact
    def __call__(self, x):
        x = x.reshape(x.shape[0], -1)
        return linen.Dense(10)(linen.BatchNorm(use_running_average=False)(x))

def batch_norm():
    return Norm()

class NnxNorm(nnx.Module):
    def __init__(self, rngs):
        self.norm, self.out = nnx.BatchNorm(64, rngs=rngs), nnx.Linear(64, 10, rngs=rngs)
    def __call__(self, x):
        return self.out(self.norm(x.reshape(x.shape[0], -1)))

def nnx_batch_norm(rngs):
    return NnxNorm(rngs)

class Drop(linen.Module):
    @linen.compact
    def __call__(self, x):
        x = x.reshape(x.shape[0], -1)
        return linen.Dense(10)(linen.Dropout(0.5, deterministic=False)(x))

def dropout():
    return Drop()
"""


def write_data(folder):
    rng = np.random.default_rng(0)
    good = {
        "x_train": rng.normal(size=(40, 3)),
        "y_train": np.arange(40) % 4,
        "x_test": rng.normal(size=(8, 3)),
        "y_test": np.arange(8) % 4,
    }
    wrong = {
        "good": {},
        "few": {"y_test": None},
        "lengths": {"y_train": good["y_train"][1:]},
        "nan": {"x_test": np.full((8, 3), np.nan)},
        "objects": {"y_train": np.array([{}] * 40)},
        "negative": {"y_train": good["y_train"] - 1 * (np.arange(40) == 0)},
        "shapes": {"x_test": np.zeros((8, 4))},
        "words": {"y_train": np.array(["one", "two"] * 20)},
        "mixed": {"y_test": np.zeros(8)},
        "half": {"x_train": np.zeros((40, 3), np.uint8)},
        "flat": {"x_train": np.zeros(40)},
        "none": {"x_test": np.zeros((0, 3)), "y_test": np.zeros(0, int)},
        "holders": {"worker": np.arange(3)},
        "keyed": {"worker": np.arange(40) % 5},
        "numbers": {"y_train": rng.normal(size=40), "y_test": rng.normal(size=8)},
    }
    for name, changes in wrong.items():
        arrays = {key: value for key, value in (good | changes).items() if value is not None}
        np.savez(folder / f"{name}.npz", **arrays)
    whole = (folder / "good.npz").read_bytes()
    (folder / "torn.npz").write_bytes(whole[: len(whole) // 2])
    (folder / "text.npz").write_text("not a zip")
    with (folder / "array.npz").open("wb") as file:
        np.save(file, np.zeros(3))


def write_configs(folder):
    for name, text in {
        "torn": "rounds: [1",
        "list": "- rounds\n- 3\n",
        "unknown": "cohrt: 3\n",
        "type": "rounds: many\n",
        "nested": "rounds: {a: 1}\n",
        "null": "rounds: null\n",
        "flag": "grad_norm: 1\n",
        "range": "seed: -4\n",
        "out": "out: somewhere\n",
        "data": "dataset: good.npz\nmodel: logistic\nworkers: 4\ncohort: 2\ndataset_sha256: abc\n",
        "profile": "dataset: digits\nmodel: logistic\nworkers: 20\nprofile: all.csv\nprofile_sha256: abc\n",
        "model": "dataset: digits\nmodel: models.py:narrow\nworkers: 20\nmodel_sha256: abc\n",
        "empty-axis": "worker_lr: []\n",
        "commas": "worker_lr: 0.1,1\n",
        "deep": "worker_lr: [0.1, [1]]\n",
        "no-runs": "runs: 3\n",
        "odd-runs": "runs: [{cohrt: 3}]\n",
        "axis-and-runs": "cohort: [5, 6]\nruns: [{cohort: 7}, {cohort: 8}]\n",
        "same-runs": "runs: [{cohort: 5}, {cohort: 6}, {cohort: 5}]\n",
        "seeds": "seeds: many\n",
        "alike": "deterministic: [true, false]\n",
        "hashed": "dataset: good.npz\nworkers: 4\ncohort: [2, 3]\nfiles: {good.npz: abc}\n",
    }.items():
        (folder / f"{name}.yaml").write_text(text)
    (folder / "bytes.yaml").write_bytes(b"\xff\xfe\x00rounds")


def write_profiles(folder):
    for name, text in {
        "void": "\n\n",
        "header": "uplink,downlink\n",
        "rows": "uplink\n1\n2\n",
        "column": "upling\n1\n",
        "twice": "uplink,uplink\n1,2\n",
        "nothing": "worker\n0\n",
        "cells": "uplink,latency\n1,2\n3\n",
        "word": "uplink\nfast\n",
        "zero": "slowness\n1\n0\n",
        "infinite": "latency\ninf\n",
        "workers": "worker,uplink\n0,1\n0,1\n",
        "all": "uplink\n" + "1\n" * 20,
    }.items():
        (folder / f"{name}.csv").write_text(text)
    (folder / "binary.csv").write_bytes(b"\xff\xfe\x00uplink")
    (folder / "folder.csv").mkdir()


def write_records(folder):
    for name, cohorts in {
        "one": [(0, [1, 4])],
        "gap": [(0, [1]), (2, [1])],
        "nobody": [(0, [])],
        "far": [(0, [3, 20])],
        "twice": [(0, [3, 3])],
    }.items():
        lines = (f'{{"round": {t}, "ids": {ids}}}\n' for t, ids in cohorts)
        (folder / f"{name}.jsonl").write_text("".join(lines))
    (folder / "record.yaml").write_text(f"sampling: recorded:one.jsonl\nsampling_sha256: {'0' * 64}\n")


def write_damaged_runs(folder):
    for name in ("torn-config", "torn-checkpoint", "torn-metrics", "odd-metrics"):
        shutil.copytree(folder / "done", folder / name)
    (folder / "torn-config/config.yaml").write_text("rounds: [1")
    for path in (folder / "torn-checkpoint/checkpoints/1").rglob("*"):
        if path.is_file():
            path.write_bytes(b"damaged")
    (folder / "torn-metrics/metrics.jsonl").write_text("{not json}\n")
    (folder / "odd-metrics/metrics.jsonl").write_text("[1, 2]\n")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with everything that can be wrong in it, and one run that is right."""
    folder = tmp_path_factory.mktemp("bad")
    write_data(folder)
    write_configs(folder)
    write_profiles(folder)
    write_records(folder)
    (folder / "models.py").write_text(MODELS_PY)
    (folder / "broken.py").write_text("def make(:\n")
    (folder / "exits.py").write_text("import sys\nsys.exit(3)\n")
    (folder / "empty").mkdir()
    (folder / "planned").mkdir()
    (folder / "planned/config.yaml").write_text("dataset: digits\nmodel: logistic\nworkers: 20\nrounds: 1\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        main([*shlex.split(RUN), "--out", "done", "--json"])
    write_damaged_runs(folder)
    return folder


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        for path in sorted(folder.rglob("*"))
    }


def refused(command, capfd):
    """The one line of complaint."""
    capfd.readouterr()
    with pytest.raises(SystemExit) as stop:
        main(shlex.split(command))
    said = capfd.readouterr()
    assert stop.value.code == 2, said.err
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert said.err.startswith("enlist: ")
    assert "Traceback" not in said.err
    return said.err


def test_there_are_many_cases_and_no_two_are_the_same():
    assert len({command for command, _ in CASES}) == len(CASES) >= 45


@pytest.mark.parametrize(("command", "expected"), CASES, ids=[command[-60:] for command, _ in CASES])
def test_bad_input_is_refused_in_one_line_and_leaves_nothing(command, expected, place, monkeypatch, capfd):
    monkeypatch.chdir(place)
    monkeypatch.setenv("ENLIST_OFFLINE", "1")
    before = contents(place)
    try:
        assert expected in refused(command, capfd)
        assert contents(place) == before
    finally:
        shutil.rmtree(place / "new", ignore_errors=True)


def test_tensorboard_without_its_package(place, monkeypatch, capfd):
    monkeypatch.chdir(place)
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    assert "pip install 'enlist[tensorboard]'" in refused(f"{RUN} --tensorboard", capfd)
    assert not (place / "new").exists()


def test_a_folder_that_may_not_be_written_to(place, monkeypatch, capfd):
    monkeypatch.chdir(place)
    # Whoever runs the tests as root may write everywhere.
    monkeypatch.setattr("enlist.launch.run.os.access", lambda path, mode: False)
    assert f"out = new: nothing may be written in {place}" in refused(RUN, capfd)
    assert not (place / "new").exists()


def test_too_little_memory_is_said_in_one_line(place, monkeypatch, capfd):
    def exhausted(*arguments, **options):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 99 bytes")

    monkeypatch.chdir(place)
    monkeypatch.setattr("enlist.launch.run.undertake", exhausted)
    with pytest.raises(SystemExit) as stop:
        main(shlex.split(RUN))
    assert stop.value.code == 1
    assert re.fullmatch("enlist: out of memory: try --execution chunk:N.*\n", capfd.readouterr().err)


def test_a_full_disk_is_said_in_one_line(place, monkeypatch, capfd):
    def full(*arguments, **options):
        raise OSError(28, "No space left on device", "new/metrics.jsonl")

    monkeypatch.chdir(place)
    monkeypatch.setattr("enlist.launch.run.undertake", full)
    with pytest.raises(SystemExit) as stop:
        main(shlex.split(RUN))
    assert stop.value.code == 1
    assert capfd.readouterr().err == "enlist: new/metrics.jsonl: No space left on device\n"


def test_a_dataset_that_cannot_be_had_is_said_in_one_line_with_what_to_do(
    place, monkeypatch, capfd, tmp_path
):
    monkeypatch.chdir(place)
    for name, value in {"ENLIST_CACHE": str(tmp_path), "ENLIST_DATA": "", "ENLIST_OFFLINE": "1"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as stop:
        main(["run", "--out", "new"])
    said = capfd.readouterr()
    assert stop.value.code == 1
    assert said.out == ""
    assert re.fullmatch("enlist: cannot obtain mnist;.*--dataset digits.*\n", said.err)
    assert not (place / "new").exists()


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("runn", "did you mean 'run'?"),
        (f"{RUN} --precision fp8", "unknown precision 'fp8'"),
        ("run --resume torn-checkpoint --devices 1", "this checkpoint cannot be read"),
    ],
)
def test_as_a_process_too(command, expected, place):
    done = subprocess.run(
        [sys.executable, "-m", "enlist", *shlex.split(command)], cwd=place, capture_output=True, text=True
    )
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert expected in done.stderr
    assert not (place / "new").exists()
