"""Names that would like to be more than names, through every way into twinpod, and what comes out of it.

    tests/hostile.py PROGRAM FOLDER NUMBER    FOLDER is empty; NUMBER of names, always the same ones

Prints `ok NAME` or `not ok NAME` for each thing that must hold of all of them. tests/hostile.sh calls it.
"""
import ast, concurrent.futures, csv, json, os, random, re, subprocess, sys, unicodedata, xml.dom.minidom

program, folder, number = os.path.abspath(sys.argv[1]), sys.argv[2], int(sys.argv[3])
PLAIN = "plain"
LAUNCHES = ["megatron", "torchtitan", "nemo", "slurm", "slurm:torchtitan", "slurm:nemo", "twinpod"]
NARROW = ["--tp", "2", "--pp", "1", "--cp", "1", "--micro-batch", "1", "--zero", "2", "--recompute", "selective",
          "--global-batch", "64", "--sequence", "2048", "--precision", "bf16", "--offload-optimizer", "false",
          "--offload-activations", "false", "--servers", "0", "--sequence-parallel", "true"]

# With builtins alone, as there is no PATH: whichever of them runs leaves a file.
DEEDS = [">canary", "echo x >canary", "$(>canary)", "`>canary`", "; >canary; #", "| >canary", "&& >canary",
         "${x:=$(>canary)}", "$((a[$(>canary)]))", "<(>canary)", "open('canary','w')", "__import__('os').mknod('canary')"]
ENDS = ["", "\n", "\r", "\r\n", "'", '"', "`", '"""', "'''", "\\", "\\\n", "\n\n", "\x00", "\u2028", "\u2029", "\x85", "\f",
        "\v", "\nTWINPOD_LAUNCH\n", "\nTWINPOD_CONFIG\n", "\nTWINPOD_NODE\n", "\nEOF\n", "\n)\n", "\n}\n", "*/", "-->", "]]>",
        "\n#SBATCH --wrap=", "#{", "${", "{{", "%s", "{0}", ")\n", "\t", "\ufeff", "\u202e", "\u2066", "\x1b[2J", "\x1b]0;",
        "\x9b31m", "\x07", "\x7f"]
SPECIALS = ["- ", ": ", "&a *a", "%YAML 1.1\n---\n", "!!python/object/apply:os.system ", "? ", "@", "|\n ", ">", "<<: *a",
            "null", "~", "true", "1e5", "0x10", ".inf", "[", "{", "[[", "]]>", "<script>", "</text><script>alert(1)</script>",
            "<!ENTITY x>", "&#x3c;", "&amp;", "=cmd|' /C calc'!A0", "+1", "-1+1", "@SUM(1)", " lead", "trail ", "-*- coding: utf-7 -*-",
            "+AAo-", "vim: set modeline:", "#!/bin/sh", "SBATCH --wrap=x", "你好", "👍", "é", "../../etc/passwd", "-rf", "--help",
            "a" * 200, "$'\\n'", "!!", "^a^b", "~root"]


def make_names(count):
    rng = random.Random(20250)
    names = ["meta\ntouch x;:", "meta\n>canary;:", "x" * 100_000]
    while len(names) < count:
        parts = []
        for _ in range(rng.randint(1, 4)):
            parts.append(rng.choice(ENDS) + rng.choice([rng.choice(DEEDS), rng.choice(SPECIALS)]) + rng.choice(ENDS))
        name = rng.choice(["", "meta ", " "]) + "".join(parts)
        # Half of them without what the reader of jobs refuses anyway.
        if rng.random() < 0.5: name = "".join(c for c in name if not is_hidden(ord(c)))
        names.append(name)
    return names[:count]


def is_hidden(code):
    return (code < 32 or 0x7f <= code <= 0x9f or code in (0x61c, 0x200e, 0x200f, 0xfeff, 0xfffe, 0xffff)
            or 0x2028 <= code <= 0x202e or 0x2066 <= code <= 0x2069 or 0xfff9 <= code <= 0xfffb)


def write(path, text):
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file: file.write(text)


def job(model='llama3-8b', cluster='dgx-h100', **more):
    return {"model": model, "cluster": cluster, **more}


CONFIG = {"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
          "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 8192}

# Each way in: (files that it needs, arguments of `plan`). A document is JSON, which is YAML, too.
WAYS = {
    "_name_or_path": lambda n: ({"config.json": {**CONFIG, "_name_or_path": n}}, ["config.json", "--on", "dgx-h100"]),
    "model_type": lambda n: ({"config.json": {**CONFIG, "model_type": n}}, ["config.json", "--on", "dgx-h100"]),
    "architectures": lambda n: ({"config.json": {**CONFIG, "architectures": [n]}}, ["config.json", "--on", "dgx-h100"]),
    "name": lambda n: ({"job.yaml": job(name=n)}, ["job.yaml"]),
    "notes": lambda n: ({"job.yaml": job(notes=n)}, ["job.yaml"]),
    "model.name": lambda n: ({"job.yaml": job(model={"base": "llama3-8b", "name": n})}, ["job.yaml"]),
    "model.source": lambda n: ({"job.yaml": job(model={"base": "llama3-8b", "source": n})}, ["job.yaml"]),
    "model": lambda n: ({"job.yaml": job(model=n)}, ["job.yaml"]),
    "cluster.name": lambda n: ({"job.yaml": job(cluster={"base": "dgx-h100", "name": n})}, ["job.yaml"]),
    "cluster.source": lambda n: ({"job.yaml": job(cluster={"base": "dgx-h100", "source": n})}, ["job.yaml"]),
    "device.name": lambda n: ({"job.yaml": job(cluster={"base": "dgx-h100", "device": {"base": "h100-sxm", "name": n}})},
                              ["job.yaml"]),
    "device.vendor": lambda n: ({"job.yaml": job(cluster={"base": "dgx-h100", "device": {"base": "h100-sxm", "vendor": n}})},
                                ["job.yaml"]),
    "device.family": lambda n: ({"job.yaml": job(cluster={"base": "dgx-h100", "device": {"base": "h100-sxm", "family": n}})},
                                ["job.yaml"]),
    "device.aliases": lambda n: ({"job.yaml": job(cluster={"base": "dgx-h100", "device": {"base": "h100-sxm", "aliases": [n]}})},
                                 ["job.yaml"]),
    "stack": lambda n: ({"job.yaml": job(stack=n)}, ["job.yaml"]),
    "stack.name": lambda n: ({"job.yaml": job(stack={"base": "nemo-2025", "name": n})}, ["job.yaml"]),
    "a key": lambda n: ({"job.yaml": job(**{n: 1})}, ["job.yaml"]),
    "schedule": lambda n: ({"job.yaml": job(layout={"schedule": {"file": n}})}, ["job.yaml"]),
    "tokens": lambda n: ({"job.yaml": job(data={"tokens": n})}, ["job.yaml"]),
    "--set": lambda n: ({}, ["llama3-8b", "--on", "dgx-h100", "--set", "name=" + json.dumps(n)]),
    "--set raw": lambda n: ({}, ["llama3-8b", "--on", "dgx-h100", "--set", "name=" + n.replace("\0", "")]),
    "--set a key": lambda n: ({}, ["llama3-8b", "--on", "dgx-h100", "--set", n.replace("\0", "") + "=1"]),
    "--on": lambda n: ({}, ["llama3-8b", "--on", n.replace("\0", "")]),
    "--stack": lambda n: ({}, ["llama3-8b", "--on", "dgx-h100", "--stack", n.replace("\0", "")]),
    "a file's name": lambda n: ({file_name(n) + ".yaml": job()}, [file_name(n) + ".yaml"]),
    "a folder's name": lambda n: ({file_name(n) + "/job.yaml": job(model="./m/config.json"), file_name(n) + "/m/config.json": CONFIG},
                                  [file_name(n) + "/job.yaml"]),
}


def file_name(name):
    return "./" + (name.replace("\0", "").replace("/", "_").encode()[:120].decode(errors="ignore") or "_")


class Tally:
    def __init__(self): self.bad, self.seen = {}, {}
    def check(self, what, good, why):
        self.seen[what] = self.seen.get(what, 0) + 1
        if not good: self.bad.setdefault(what, []).append(why)


tally = Tally()


def unclean(data):
    """What a terminal would obey in what was printed; "" if nothing."""
    try: text = data.decode()
    except UnicodeDecodeError as error: return "no UTF-8: %s" % error
    found = [c for c in text.replace("\r\n", "\n") if is_hidden(ord(c)) and c not in "\n\t"]
    return "%r" % found[:3] if found else ""


def shape_of(launch, text):
    """What a launch does: the same whatever things are called."""
    if launch == "nemo": return ast.dump(ast.parse(text.encode()))
    lines = re.split("\n|\r|\x85|\u2028|\u2029|\f|\v", text)
    return "\n".join(line for line in lines if not line.startswith("#") or line.startswith("#SBATCH") or line.startswith("#!"))


def run(where, arguments):
    os.makedirs(where, exist_ok=True)
    try:
        return subprocess.run([os.fsencode(a) for a in [program, *arguments]], cwd=where, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=120)
    except subprocess.TimeoutExpired: return None
    except OSError: return False  # longer than an argument may be


def planned(where, files, arguments, more):
    for name, document in files.items():
        path = os.path.join(where, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        write(path, json.dumps(document, ensure_ascii=hash_of(where) % 2 == 0))
    return run(where, ["plan", *arguments, *NARROW, *more])


def hash_of(text): return sum(text.encode())


def one_launch(task):
    index, name, way, launch = task
    where = os.path.join(folder, "runs", "%d-%s" % (index, launch.replace(":", "-")))
    os.makedirs(where)
    files, arguments = WAYS[way](name)
    done = planned(where, files, arguments, ["--emit", launch])
    return task, where, done


def judge(task, where, done, shapes):
    index, name, way, launch = task
    label = "%s by %s: %r" % (launch, way, name[:80])
    if done is False: return
    tally.check("hostile: the program answers", done is not None and done.returncode in (0, 1, 2), label)
    if done is None: return
    dirt = unclean(done.stderr)
    tally.check("hostile: no message holds what a terminal obeys", not dirt, label + " " + dirt)
    dirt = unclean(done.stdout)
    tally.check("hostile: no answer holds what a terminal obeys", not dirt, label + " " + dirt)
    tally.check("hostile: one error is one line, and one for the hint", done.returncode == 0 or done.stderr.count(b"\n") <= 3, label)
    if done.returncode != 0 or not done.stdout: return
    text = done.stdout.decode(errors="replace")
    path = os.path.join(where, "launch")
    write(path, text)
    if launch == "twinpod":
        again = run(where, ["estimate", "./launch.yaml", "--json"]) if os.rename(path, path + ".yaml") is None else None
        good = again is not None and again.returncode == 0
        if good and way in ("name", "--set"): good = json.loads(again.stdout)["job"] == name
        tally.check("hostile: a job file is read back as the same job", good, label)
        load_yaml(path + ".yaml", label)
        return
    try: same = shape_of(launch, text) == plain_shape(launch, way, shapes)
    except (SyntaxError, ValueError) as error: same, label = False, label + " %s" % error
    tally.check("hostile: a launch does the same whatever things are called", same, label)
    if launch != "nemo": execute(where, path, label)


try: import yaml
except ImportError: yaml = None


def load_yaml(path, label):
    if yaml is None: return
    try:
        with open(path, "rb") as file: good = isinstance(yaml.unsafe_load(file), dict)
    except yaml.YAMLError as error: good, label = False, label + " %s" % error
    tally.check("hostile: another reader of YAML takes a job file for data", good and not os.path.exists("canary"), label)


def execute(where, path, label):
    empty = os.path.join(where, "empty")
    for search in ("", os.path.join(folder, "bin")):
        os.makedirs(empty, exist_ok=True)
        environment = {"PATH": search, "MEGATRON_PATH": "/nowhere", "DATA_PATH": "mock", "HF_ASSETS": "/nowhere", "NODE_RANK": "0",
                       "MASTER_ADDR": "localhost", "SLURM_JOB_NODELIST": "a", "OUTPUT_PATH": "/nowhere", "TMPDIR": where,
                       "RUN_DIR": os.path.join(where, "run")}
        ran = subprocess.run(["/bin/bash", path], cwd=empty, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
        tally.check("hostile: executed, a launch leaves nothing but its own", not os.listdir(empty), label)
        if search:
            tally.check("hostile: executed, a launch gets to its end", b"TORCHRUN" in ran.stdout, label + " %r" % ran.stderr[-200:])
    parsed = subprocess.run(["/bin/bash", "-n", path], capture_output=True)
    tally.check("hostile: bash parses a launch", parsed.returncode == 0 and not parsed.stderr, label)


def make_tools():
    """What a launch calls: the real ones that it needs, and a torchrun, srun and scontrol that only say so."""
    tools = os.path.join(folder, "bin")
    os.makedirs(tools)
    for name in ("cat", "mkdir", "mktemp", "bash"):
        for place in ("/bin", "/usr/bin"):
            if os.path.exists(os.path.join(place, name)) and not os.path.exists(os.path.join(tools, name)):
                os.symlink(os.path.join(place, name), os.path.join(tools, name))
    for name, body in (("torchrun", "echo TORCHRUN"), ("srun", 'exec "$@"'), ("scontrol", "echo a")):
        write(os.path.join(tools, name), "#!/bin/bash\n%s\n" % body)
        os.chmod(os.path.join(tools, name), 0o755)


def plain_shape(launch, way, shapes):
    """Of the launch with a plain name in the same place; None: refused."""
    if (launch, way) not in shapes:
        where = os.path.join(folder, "runs", "plain-%d-%s" % (list(WAYS).index(way), launch.replace(":", "-")))
        done = planned(where, *WAYS[way](PLAIN), ["--emit", launch])
        shapes[launch, way] = shape_of(launch, done.stdout.decode()) if done.returncode == 0 else None
    return shapes[launch, way]


def check_launches(names):
    ways = list(WAYS)
    tasks = [(index * len(LAUNCHES) + k, name, ways[(index * 5 + k) % len(ways)], launch)
             for index, name in enumerate(names) for k, launch in enumerate(LAUNCHES)]
    shapes = {}
    for launch in LAUNCHES[:-1]:
        tally.check("hostile: a plain name is emitted for each engine", plain_shape(launch, "name", shapes), launch)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for task, where, done in pool.map(one_launch, tasks): judge(task, where, done, shapes)


def check_pictures(names):
    """SVG, JSON and CSV of things with these names."""
    def parsed(path): return [e.tagName for e in xml.dom.minidom.parse(path).getElementsByTagName("*")]
    plain = {}
    for index, name in enumerate([PLAIN, *names]):
        where = os.path.join(folder, "runs", "picture-%d" % index)
        document = job(name=name, model={"base": "llama3-8b", "name": name}, cluster={"base": "dgx-h100", "name": name})
        done = planned(where, {"job.yaml": document}, ["job.yaml"], ["--svg", "plan.svg", "--json", "--simulate", "0"])
        label = "%r" % name[:80]
        if done is None or done.returncode not in (0, 1, 2): tally.check("hostile: the program answers", False, label)
        if done is None: continue
        try: answer = json.loads(done.stdout)
        except ValueError: answer = None
        tally.check("hostile: JSON is JSON", answer is not None and not unclean(done.stdout), label)
        if done.returncode != 0: continue
        tally.check("hostile: JSON gives names back", answer["job"] == name and answer["model"] == name, label)
        run(where, ["topology", "job.yaml", "--svg", "topology.svg"])
        for picture in ("plan.svg", "topology.svg"):
            path = os.path.join(where, picture)
            if not os.path.exists(path): continue
            try: tags = parsed(path)
            except xml.parsers.expat.ExpatError as error: tags, label = None, label + " %s" % error
            tally.check("hostile: a picture shows the same whatever things are called", tags == plain.setdefault(picture, tags) and tags, label)
        rows = planned(where, {}, ["job.yaml"], ["--csv"]).stdout.decode(errors="replace")
        cells = [cell for row in csv.reader(rows.splitlines()) for cell in row]
        tally.check("hostile: no cell of a table is a formula", not any(re.match(r"[=+@\t\r]|-(?![0-9.])", c) for c in cells), label)


def check_hints(names):
    """A hint is pasted into a shell: it is one command, and names the file that it is about."""
    recorder = 'twinpod() { printf "%s\\0" "$@"; }; eval "$HINT"'
    for index, name in enumerate(names):
        where = os.path.join(folder, "runs", "hint-%d" % index)
        os.makedirs(where)
        path = file_name(name) + ".xml"
        made = run(where, ["collective", "all_gather", "--on", "dgx-h100", "--ranks", "4", "--algorithm", "ring", "--export", path])
        done = run(where, ["collective", "all_reduce", "--on", "dgx-h100", "--schedule", path])
        label = "%r" % path[:80]
        if not done or done.returncode != 2: 
            tally.check("hostile: a schedule for another collective is refused", False, label + " %r %r" % (made and made.stderr, done))
            continue
        hint = done.stderr.decode(errors="replace").splitlines()[-1].strip()
        ran = subprocess.run(["/bin/bash", "-c", recorder], env={"PATH": "", "HINT": hint}, cwd=where, capture_output=True)
        words = ran.stdout.split(b"\0")
        tally.check("hostile: a hint names its file, and does no more", os.fsencode(path) in words and not
                    os.path.exists(os.path.join(where, "canary")), label + " " + hint)


make_tools()
names = make_names(number)
check_launches(names)
check_pictures(names[:max(6, number // 10)])
check_hints(names[:max(6, number // 10)])
for what, count in tally.seen.items():
    wrong = tally.bad.get(what, [])
    for why in wrong[:5]: print("  ", why)
    print("%s %s (%d times)" % ("not ok" if wrong else "ok", what, count))
sys.exit(1 if tally.bad else 0)
