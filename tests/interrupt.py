"""Runs of twinpod that are told to end at random moments, as a terminal does it: a signal to all processes of the group.

    tests/interrupt.py PROGRAM JOB FOLDER --runs 24 --seed 1 --at-once 4

Prints what went wrong, and at the end the figures. Each run has a folder for temporary files of its own, in which nothing
may be left; no process may be left, and nothing in /dev/shm.
"""
import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time

LONGEST_END_S = 20  # on a machine that is busy with other things


def processes_of(session):
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit():
                with open(f"/proc/{name}/stat") as file:
                    words = file.read().rsplit(")", 1)[1].split()
                if int(words[3]) == session and words[0] not in "ZX":
                    found.append(int(name))
        except OSError:
            pass  # it has ended
    return found


class Run:
    """One command in a session of its own, which is ended after a while."""

    def __init__(self, folder, command, environment=None):
        self.folder = folder
        self.temporary = os.path.join(folder, "tmp")
        os.makedirs(self.temporary)
        self.out = os.path.join(folder, "out")
        self.err = os.path.join(folder, "err")
        environment = dict(os.environ, TMPDIR=self.temporary, **(environment or {}))
        with open(self.out, "w") as out, open(self.err, "w") as err:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=folder,
                                            env=environment, start_new_session=True)

    def tell(self, number, everybody=True):
        if self.process.poll() is not None:
            return
        if everybody:
            os.killpg(self.process.pid, number)
        else:
            os.kill(self.process.pid, number)

    def wait(self):
        began = time.monotonic()
        try:
            self.process.wait(LONGEST_END_S)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            return None
        return time.monotonic() - began

    def faults(self):
        """What may not be, however it ended."""
        faults = []
        left = processes_of(self.process.pid)
        if left:
            faults.append(f"processes are left: {left}")
            for pid in left:
                os.kill(pid, signal.SIGKILL)
        if os.listdir(self.temporary):
            faults.append(f"files are left in the folder for temporary ones: {os.listdir(self.temporary)}")
        others = set(os.listdir(self.folder)) - {"tmp", "out", "err", "store", "lines"}
        if others:
            faults.append(f"files are left: {sorted(others)}")
        text = open(self.err).read()
        for word in ("corrupted", "free()", "terminate called", "was killed", "Sanitizer", "not saved", "Not saved"):
            if word in text:
                faults.append(f"standard error says: {text.strip()[-200:]}")
                break
        return faults


def steps_told(folder):
    try:
        return len(open(os.path.join(folder, "lines")).read().splitlines())
    except FileNotFoundError:
        return 0


def newest_step(store):
    """Of the newest checkpoint; 0: there is none."""
    try:
        name = open(os.path.join(store, "latest")).read().strip()
        return json.load(open(os.path.join(store, name, "manifest.json")))["body"]["state"]["step"]
    except FileNotFoundError:
        return 0


class Trial:
    """A training run: what is drawn for it, and what must be true behind it."""

    def __init__(self, options, number):
        draw = random.Random(f"{options.seed} {number}")
        self.number = number
        self.ranks = draw.choice([1, 2, 2, 3, 4])
        self.stores = draw.random() < 0.6
        self.threads = draw.random() < 0.15
        self.signal = draw.choice([signal.SIGINT, signal.SIGINT, signal.SIGTERM, signal.SIGTERM, signal.SIGHUP])
        self.trains = draw.random() < 0.7  # told behind its first step, else at any moment from the start on
        self.after_s = draw.random() * (0.5 if self.trains else 1.0)
        self.twice = draw.random() < 0.2  # as `timeout` does it
        self.folder = os.path.join(options.folder, str(number))
        self.command = [options.program, "train", options.job, "--ranks", str(self.ranks), "--steps", "1000000",
                        "--metrics", "lines", "--json", "--global-batch", "24"]
        if self.stores:
            self.command += ["--store", "store", "--checkpoint-every", str(draw.choice([1, 3, 10]))]
        if self.threads:
            self.command += ["--threads"]
        self.program = options.program
        self.outcome = ""
        self.seconds = None

    def text(self):
        what = f"--ranks {self.ranks}{' --threads' if self.threads else ''}{' --store' if self.stores else ''}"
        when = "behind its first step" if self.trains else "of its start"
        return f"run {self.number}: {what}, {signal.Signals(self.signal).name} {self.after_s:.3f} s {when}"

    def go(self):
        run = Run(self.folder, self.command)
        limit = time.monotonic() + 60
        while self.trains and steps_told(self.folder) == 0 and run.process.poll() is None and time.monotonic() < limit:
            time.sleep(0.005)
        time.sleep(self.after_s)
        run.tell(self.signal)
        if self.twice:
            run.tell(self.signal)
        self.seconds = run.wait()
        faults = run.faults()
        if self.seconds is None:
            faults.append(f"it had not ended {LONGEST_END_S} s later")
        else:
            faults += self.wrong(run)
        if not faults:
            shutil.rmtree(self.folder)
        return faults

    def wrong(self, run):
        status, told = run.process.returncode, steps_told(self.folder)
        if status == -self.signal:
            self.outcome = "ended by the signal"
            return [f"{told} steps were done, but not saved"] if self.stores and told > 0 else []
        if status != 0 or not self.stores:
            return [f"status {status}: {open(run.err).read().strip()[-300:]}"]
        answer = json.load(open(run.out))
        self.outcome = "saved"
        done, saved = answer["first_step"] + answer["steps"], newest_step(os.path.join(self.folder, "store"))
        faults = []
        if not answer["stopped"]:
            faults.append("it does not say that it was stopped")
        if done != saved or told != done:
            faults.append(f"{done} steps were done and {told} told, but step {saved} was saved")
        if done > 0:
            verified = subprocess.run([self.program, "checkpoint", "verify", "store"], cwd=self.folder,
                                      capture_output=True, text=True)
            if verified.returncode != 0:
                faults.append(f"a checkpoint is damaged: {verified.stdout} {verified.stderr}")
        return faults


def sweep(options):
    numbers = list(range(options.first, options.first + options.runs))
    end = time.monotonic() + options.seconds
    lock, bad, outcomes, longest = threading.Lock(), 0, {}, 0.0

    def work():
        nonlocal bad, longest
        while True:
            with lock:
                if not numbers or time.monotonic() > end:
                    return
                number = numbers.pop(0)
            trial = Trial(options, number)
            try:
                faults = trial.go()
            except Exception as error:  # of this script, which must not pass for a run that went well
                faults = [f"{type(error).__name__}: {error}"]
                trial.outcome = ""
            with lock:
                bad += 1 if faults else 0
                outcomes[trial.outcome] = outcomes.get(trial.outcome, 0) + 1
                longest = max(longest, trial.seconds or 0)
                for fault in faults:
                    print(f"{trial.text()}: {fault}")

    before = set(os.listdir("/dev/shm"))
    workers = [threading.Thread(target=work) for _ in range(options.at_once)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    left = set(os.listdir("/dev/shm")) - before
    if left:
        print(f"left in /dev/shm: {sorted(left)}")
    figures = ", ".join(f"{count} {outcome or 'failed'}" for outcome, count in sorted(outcomes.items()))
    done = sum(outcomes.values())
    print(f"{done} of {options.runs} runs: {figures}; {bad} wrong; the longest end took {longest:.2f} s")
    return 1 if bad or left or done != options.runs else 0


def one(options):
    """Any command: ended after some time, it dies by the signal (or ends as --status says) with nothing left."""
    number = getattr(signal, f"SIG{options.signal}")
    run = Run(options.folder, options.command)
    time.sleep(options.after)
    if run.process.poll() is not None:
        print(f"it ended by itself, with status {run.process.returncode}: {open(run.err).read().strip()[-300:]}")
        return 1
    if options.stopped:  # as by Ctrl-Z, which needs a terminal
        run.tell(signal.SIGSTOP)
        time.sleep(options.stopped)
        run.tell(signal.SIGCONT)
        time.sleep(options.after)
        if run.process.poll() is not None:
            print(f"it did not go on: status {run.process.returncode}: {open(run.err).read().strip()[-300:]}")
            return 1
    run.tell(number, not options.alone)
    seconds = run.wait()
    faults = run.faults()
    if seconds is None:
        faults.append(f"it had not ended {LONGEST_END_S} s later")
    elif seconds > options.within:
        faults.append(f"its end took {seconds:.1f} s")
    if seconds is not None and run.process.returncode != (-number if options.status is None else options.status):
        faults.append(f"status {run.process.returncode}: {open(run.err).read().strip()[-300:]}")
    for fault in faults:
        print(fault)
    return 1 if faults else 0


def main():
    parser = argparse.ArgumentParser()
    kinds = parser.add_subparsers(required=True)
    many = kinds.add_parser("sweep")
    many.add_argument("program")
    many.add_argument("job")
    many.add_argument("folder")
    many.add_argument("--runs", type=int, default=24)
    many.add_argument("--first", type=int, default=0)
    many.add_argument("--seed", type=int, default=1)
    many.add_argument("--seconds", type=float, default=3600, help="no run is begun later")
    many.add_argument("--at-once", type=int, default=4)
    many.set_defaults(act=sweep)
    single = kinds.add_parser("one")
    single.add_argument("folder")
    single.add_argument("--signal", default="INT")
    single.add_argument("--after", type=float, default=0.5)
    single.add_argument("--within", type=float, default=5)
    single.add_argument("--status", type=int)
    single.add_argument("--stopped", type=float, default=0, help="before it, for so many seconds")
    single.add_argument("--alone", action="store_true", help="to the launcher and nobody else")
    single.add_argument("command", nargs=argparse.REMAINDER)
    single.set_defaults(act=one)
    options = parser.parse_args()
    sys.exit(options.act(options))


if __name__ == "__main__":
    main()
