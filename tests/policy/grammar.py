# SPDX-License-Identifier: Apache-2.0
"""Random command lines: from a grammar of bash, and by splicing pieces of known cases."""
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
ALLOWED = ["ls", "cat", "wc", "sort", "head", "tr", "cut", "uniq", "date", "tee"]
FORBIDDEN = ["rm", "mv", "curl", "unlink"]
EVIL = "'a[$(rm v)]'"


def cases(name):
    return (HERE / name).read_text().rstrip("\n").split("\n%%\n")


class Grammar:
    """One random source, so that a seed names a run. `evil` is the share of forbidden names."""

    def __init__(self, random, evil=0.03):
        self.random, self.evil = random, evil
        self.depth = 0
        # Pieces that a splice puts together; words that leave the directory are left out.
        texts = cases("fine.txt") + cases("refused.txt")
        self.pieces = [text for text in texts if "/" not in text and "~" not in text]

    def pick(self, *choices):
        choice = self.random.choice(choices)
        return choice() if callable(choice) else choice

    def name(self):
        names = FORBIDDEN if self.random.random() < self.evil else ALLOWED
        return self.quote(self.random.choice(names))

    def quote(self, name):
        if self.random.random() < 0.7:
            return name
        cut = self.random.randrange(len(name))
        return self.pick(f"'{name}'", f'"{name}"', f"{name[:cut]}''{name[cut:]}", f"\\{name}",
                         f"{name[:cut]}\\\n{name[cut:]}", f"$'{name}'")

    def value(self):
        return self.pick("1", "x", "'a b'", "", "$x", '"$y"', "$((1+1))", EVIL, "$(cat f)",
                         self.substitution, "2", '"${x}"')

    def substitution(self):
        inner = self.nested(self.list, "ls")
        return self.pick(f"$({inner})", f'"$({inner})"', f"<({inner})", f"$( {inner}\n)",
                         f"${{x:-$({inner})}}", f"${{x:+{inner}}}",
                         "`" + inner.replace("\\", "\\\\").replace("`", "\\`") + "`")

    def arithmetic(self):
        return self.pick("x+1", "x", "1+2", "a[x]", "x++", "y=3", "${#x}", "$x*2", "(1)", "x<y",
                         lambda: f"$({self.nested(self.simple, 'ls')})", "x?y:1")

    def word(self):
        return self.pick("a", "-l", "'rm v'", '"rm; v"', "$x", '"$x"', "${x}", "*.txt", "{a,b}",
                         "~", "\\;", "'|'", "#", "a#b", "${x:-b}", "${x%%a*}", "${#x}", "$'\\n'",
                         "${x[0]}", "${x[y]}", "{1..3}", '"a\nb"', "$", "a=b", "\\\n c", "$[1]",
                         self.substitution, self.substitution,
                         lambda: f"$(({self.arithmetic()}))",
                         lambda: f"${{x:{self.arithmetic()}}}")

    def words(self):
        return " ".join(self.word() for _ in range(self.random.randrange(4)))

    def redirect(self):
        return self.pick("> f", "2>&1", "< f", ">> f", "<<< $x", "&> f", "2> >(cat)", "> $x",
                         lambda: f"<<< {self.word()}")

    def prefix(self):
        return "".join(f"{self.random.choice('xyz')}={self.value()} "
                       for _ in range(self.random.choice([0, 0, 0, 1, 2])))

    def simple(self):
        text = self.pick(
            lambda: f"{self.prefix()}{self.name()} {self.words()}",
            lambda: f"{self.name()} {self.words()}", lambda: f"{self.name()} {self.words()}",
            lambda: f"x={self.value()}", lambda: f"y={self.value()}",
            lambda: f"{self.launcher()} {self.name()} {self.words()}",
            lambda: self.builtin())
        if self.random.random() < 0.2:
            text = self.pick(f"{text} {self.redirect()}", f"{self.redirect()} {text}")
        return text

    def launcher(self):
        return self.pick("env", "env A=b", "xargs", "xargs -n1", "timeout 5", "nice -n 1", "nohup",
                         "env -i", "command", "exec", "env -u A", "xargs -I{}", "time", "!",
                         "builtin", "timeout -s TERM 5", "eval", "env nice")

    def builtin(self):
        return self.pick(
            "read x < f", "f", "g a", "unset x", "set -- a b", "declare -A x", "declare x=1",
            "local x", "export y=2", "trap 'ls' EXIT", "printf '%s' $x",
            "[ -n \"$x\" ]", "[ $x = a ]",
            "[[ $x == a* ]]", "[[ x -eq 1 ]]", "test -f $x", "let x=1", "read -r y <<< 1",
            "mapfile -t z < f", "shift", ":", "true", "x+=1", "z=(1 2)", "z[1]=2", "z[x]=2",
            "eval 'ls; wc'", f"x={EVIL}; echo $((x))", f"x={EVIL}; z[x]=1", "printf -v x a",
            "find . -exec cat {} +", "declare -i x", "[ -v x ]", "[[ -v x ]]", "wait $x",
            f"let {EVIL}", f"read {EVIL} < f", f"unset {EVIL}", f"[ -v {EVIL} ]",
            lambda: f"eval '{self.nested(self.simple, 'ls')}'",
            lambda: f"trap '{self.nested(self.simple, 'ls')}' EXIT",
            lambda: f"[[ {self.word()} == {self.word()} ]]",
            lambda: f"[ {self.word()} {self.word()} ]",
            lambda: f"(({self.arithmetic()}))", lambda: f"let {self.arithmetic()}")

    def nested(self, make, otherwise):
        if self.depth > 3:
            return otherwise
        self.depth += 1
        try:
            return make()
        finally:
            self.depth -= 1

    def body(self):
        return self.nested(self.list, "wc")

    def compound(self):
        return self.pick(
            lambda: f"( {self.body()} )", lambda: f"({self.body()})",
            lambda: f"{{ {self.body()}; }}",
            lambda: f"if {self.body()}; then {self.body()}; fi",
            lambda: f"if {self.body()}; then {self.body()}; else {self.body()}\nfi",
            lambda: f"for x in {self.words()}; do {self.body()}; done",
            lambda: f"for ((i=0;i<2;i++)); do {self.body()}; done",
            lambda: f"case {self.word()} in a|b) {self.body()};; *) {self.body()} ;; esac",
            lambda: f"f() {{ {self.body()}; }}", lambda: f"function g {{ {self.body()}\n}}",
            lambda: f"f() {{ {self.body()}; }}; f {self.words()}",
            lambda: f"while false; do {self.body()}; done",
            lambda: f"cat <<E\n{self.word()}\n{self.substitution()}\nE\n",
            lambda: f"cat <<'E'\n$(rm v)\nE\n", lambda: f"cat <<-E | wc\n\t{self.word()}\n\tE\n",
            lambda: f"coproc {self.nested(self.simple, 'ls')}")

    def command(self):
        return self.nested(self.compound, "ls") if self.random.random() < 0.25 else self.simple()

    def list(self):
        text = self.command()
        for _ in range(self.random.choice([0, 0, 1, 1, 2])):
            text += self.pick("; ", " && ", " || ", " | ", "\n", ";", "|", " |& ", "&&") + \
                self.command()
        return text

    def splice(self):
        """Parts of two cases beside each other, or one case damaged in one place."""
        left, right = self.random.choice(self.pieces), self.random.choice(self.pieces)
        cut, start = self.random.randrange(len(left) + 1), self.random.randrange(len(right) + 1)
        return self.pick(left[:cut] + right[start:], left + self.pick("; ", "\n", "|") + right,
                         left[:cut] + self.pick(*"'\"`$\\\n(){}[];&|<># ") + left[cut:],
                         left[:cut] + left[cut + 1:])

    def line(self):
        self.depth = 0
        return self.list() if self.random.random() < 0.7 else self.splice()
