package verb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
)

// Flags is the flags of a verb in the sections of its help. What is said of a flag stands next to its registration and
// nowhere else: its line in the help and its description in shell completion come from there.
type Flags struct {
	Cmd      *cobra.Command
	sections []*flagSection
	checks   []func() error      // of what the flags say, before anything is done
	Words    map[string][]string // values of flags, for the shell to complete
}

// A flagSection is flags with a title. Its flags are registered as "NAME\tdescription", or as a description alone where there is no value
// to name.
type flagSection struct {
	*pflag.FlagSet
	title string
	as    string // the command that these flags are described at; "": they are described here
}

// New makes a verb. add registers its flags, and returns what the verb does.
func New(name, help string, add func(*Flags) func(ctx context.Context, args []string) error) *cobra.Command {
	cmd := &cobra.Command{Use: name, Long: help}
	l := &Flags{Cmd: cmd, Words: map[string][]string{}}
	run := add(l)
	l.done()
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		for _, check := range l.checks {
			if err := check(); err != nil {
				return err
			}
		}
		return run(cmd.Context(), args)
	}
	return cmd
}

// Given reports whether a flag is on the command line.
func (l *Flags) Given(name string) bool { return l.Cmd.Flags().Changed(name) }

// FirstGiven is the first of some flags that is on the command line; "": none is.
func (l *Flags) FirstGiven(names ...string) string {
	i := slices.IndexFunc(names, l.Given)
	if i < 0 {
		return ""
	}
	return names[i]
}

// Exclude refuses more than one of some flags.
func (l *Flags) Exclude(instead string, names ...string) {
	l.checks = append(l.checks, func() error {
		if given := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !l.Given(n) }); len(given) > 1 {
			return hint.Usage(instead, "--%s cannot be used together", strings.Join(given, " and --"))
		}
		return nil
	})
}

// Split parts the arguments at --; command is nil where there isn't one.
func (l *Flags) Split(args []string) (before, command []string) {
	if dash := l.Cmd.ArgsLenAtDash(); dash >= 0 {
		return args[:dash], args[dash:]
	}
	return args, nil
}

// Section begins a section of the help.
func (l *Flags) Section(title string) *pflag.FlagSet {
	s := &flagSection{FlagSet: pflag.NewFlagSet(title, pflag.ContinueOnError), title: title}
	s.SortFlags = false
	l.sections = append(l.sections, s)
	return s.FlagSet
}

// Like is a section of flags that another command has too, and describes: unthrottle load.
func (l *Flags) Like(command string) *pflag.FlagSet {
	flags := l.Section("")
	l.sections[len(l.sections)-1].as = command
	return flags
}

// FlagsHere is where the sections are in a help text.
const FlagsHere = "{{flags}}\n"

// done adds the flags to the verb, and their sections to its help.
func (l *Flags) done() {
	for _, s := range l.sections {
		s.VisitAll(func(f *pflag.Flag) {
			if l.Cmd.Flags().Lookup(f.Name) != nil {
				panic("two flags are called --" + f.Name) // the second would do nothing
			}
			if name, about, ok := strings.Cut(f.Usage, "\t"); ok {
				f.Usage, f.Annotations = about, map[string][]string{valueName: {name}}
			}
		})
		l.Cmd.Flags().AddFlagSet(s.FlagSet)
		s.VisitAll(func(f *pflag.Flag) {
			if v, ok := f.Value.(*wordValue); ok {
				l.Words[f.Name] = v.words
			}
		})
	}
	for flag, words := range l.Words {
		if err := l.Cmd.Flags().SetAnnotation(flag, valueWords, words); err != nil {
			panic(err) // the flag does not exist
		}
	}
	l.Cmd.Long = strings.Replace(l.Cmd.Long, FlagsHere, l.text(), 1)
}

// Annotations of a flag: in one its value has its name, in the other the words that it may be.
const (
	valueName  = "value"
	valueWords = "words"
)

// Columns of a help text.
const (
	helpWidth = 118
	flagsWide = 22 // the flags at most; longer ones have their description in the next line
)

func (l *Flags) text() string {
	wide := 0
	for _, s := range l.sections {
		if s.as == "" {
			shown(s, func(f *pflag.Flag) {
				if n := len([]rune(flagText(f))); n <= flagsWide {
					wide = max(wide, n)
				}
			})
		}
	}
	var b strings.Builder
	for _, s := range l.sections {
		if s.as != "" {
			var names []string
			shown(s, func(f *pflag.Flag) { names = append(names, strings.TrimSpace(flagNames(f))) })
			b.WriteString(Hanging("  ", strings.Join(names, ", ")+": as in "+s.as))
			continue
		}
		if s.title != "" {
			b.WriteString(s.title + "\n")
		}
		shown(s, func(f *pflag.Flag) {
			text := flagText(f)
			n := len([]rune(text))
			if n > wide { // the description goes below it
				b.WriteString(text + "\n")
				text, n = "", 0
			}
			b.WriteString(Hanging(text+strings.Repeat(" ", wide-n)+"  ", f.Usage))
		})
	}
	return b.String()
}

// shown goes through the flags that a help text shows.
func shown(s *flagSection, each func(*pflag.Flag)) {
	s.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			each(f)
		}
	})
}

// flagNames are a flag's names, as they are typed.
func flagNames(f *pflag.Flag) string {
	if f.Shorthand != "" {
		return "  -" + f.Shorthand + ", --" + f.Name
	}
	return "      --" + f.Name
}

// flagText is a flag with its value.
func flagText(f *pflag.Flag) string {
	if name := f.Annotations[valueName]; len(name) > 0 && strings.HasPrefix(name[0], "[=") { // it takes a value only so
		return flagNames(f) + name[0]
	} else if len(name) > 0 {
		return flagNames(f) + " " + name[0]
	}
	return flagNames(f)
}

// Hanging writes a text of several lines, all but the first indented by the width of what it begins with.
func Hanging(begin, text string) string {
	room := helpWidth - len([]rune(begin))
	var b strings.Builder
	b.WriteString(begin)
	used := 0
	for i, word := range strings.Fields(text) {
		switch n := len([]rune(word)); {
		case i == 0:
			used = n
		case used+1+n > room:
			b.WriteString("\n" + strings.Repeat(" ", len([]rune(begin))))
			used = n
		default:
			b.WriteByte(' ')
			used += 1 + n
		}
		b.WriteString(word)
	}
	return strings.TrimRight(b.String(), " ") + "\n"
}

// A Threshold is what --fail-on and --fail-share ask for.
type Threshold struct {
	Severity string  // "": nothing
	share    float64 // 0: nothing
}

func (t *Threshold) FailOn(flags *pflag.FlagSet) {
	flags.Var(OneOf(&t.Severity, finding.Info.String(), finding.Warning.String(), finding.Critical.String()), "fail-on",
		"S\texit with 3 if there is a finding of severity S or above: info, warning or critical")
}

// FailOnVerdict is the same of a study, whose verdict is like a finding.
func (t *Threshold) FailOnVerdict(flags *pflag.FlagSet, warning, info string) {
	flags.Var(OneOf(&t.Severity, finding.Info.String(), finding.Warning.String()), "fail-on",
		"S\texit with 3: warning, if "+warning+"; info, also "+info)
}

func (t *Threshold) FailShare(flags *pflag.FlagSet, what string) {
	parse := func(text string) (float64, error) {
		share, err := quantity.ParseShare(text)
		if err == nil && !(share > 0 && share <= 1) {
			err = fmt.Errorf("%q is not a share above 0 %% and up to 100 %%", text)
		}
		return share, err
	}
	flags.Var(quantity.Value(&t.share, parse, "5%"), "fail-share", "S\texit with 3 if it is "+what+" for this share of the time or more: 5%")
}

// Reached reports whether a severity is what --fail-on asks for, or above it.
func (t *Threshold) Reached(s finding.Severity) bool {
	var least finding.Severity
	return t.Severity != "" && least.UnmarshalText([]byte(t.Severity)) == nil && s >= least
}

// Verdict is the exit code of what was found, and of a share of the time.
func (t *Threshold) Verdict(findings []finding.Finding, share float64) error {
	if t.share > 0 && share >= t.share || slices.ContainsFunc(findings, func(f finding.Finding) bool { return t.Reached(f.Severity) }) {
		return ExitCode{Findings, nil}
	}
	return nil
}

// Open reports whether --fail-share asks for a share of which it is not known if it was reached.
func (t *Threshold) Open(least, most float64) bool { return t.share > least && t.share <= most }

// Values of flags that are refused outside of a range.

// AtLeast reads a value that has a least.
func AtLeast[T cmp.Ordered](least T, parse func(string) (T, error)) func(string) (T, error) {
	return func(text string) (T, error) {
		v, err := parse(text)
		if err == nil && v < least {
			err = fmt.Errorf("%s is less than %v", text, least)
		}
		return v, err
	}
}

// Duration adds a flag for a time of at least some length.
func Duration(flags *pflag.FlagSet, to *time.Duration, name string, least time.Duration, about string) {
	flags.Var(quantity.Value(to, AtLeast(least, time.ParseDuration), "5s"), name, about)
}

// Seconds adds --for in whole seconds, as pages of pprof take them. Its older name, --seconds, takes the number alone.
func Seconds(flags *pflag.FlagSet, to *int, about string) {
	value := quantity.Value(to, func(text string) (int, error) {
		d, err := time.ParseDuration(text)
		if n, whole := strconv.Atoi(text); whole == nil {
			d, err = time.Duration(min(n, 1e6))*time.Second, nil
		}
		if err == nil && (d < time.Second || d > time.Hour || d%time.Second != 0) {
			err = fmt.Errorf("%s is not a whole number of seconds, at most an hour", text)
		}
		return int(d / time.Second), err
	}, "5s")
	flags.Var(value, "for", about)
	flags.VarPF(value, "seconds", "", "").Hidden = true
}

// Number adds a flag for a whole number of at least some size.
func Number[T int | int64](flags *pflag.FlagSet, to *T, name, short string, least T, about string) {
	parse := func(text string) (T, error) {
		n, err := strconv.ParseInt(text, 10, strconv.IntSize)
		if err != nil {
			err = fmt.Errorf("%q is not a whole number", text)
		}
		return T(n), err
	}
	flags.VarP(quantity.Value(to, AtLeast(least, parse), "8"), name, short, about)
}

// A wordValue is the value of a flag that takes one of a few words.
type wordValue struct {
	pflag.Value
	words []string
}

// OneOf makes a variable the value of a flag that takes one of a few words; it keeps what it is until the flag is given.
func OneOf[T ~string](to *T, words ...T) *wordValue {
	v := &wordValue{}
	for _, w := range words {
		v.words = append(v.words, string(w))
	}
	v.Value = quantity.Value(to, func(text string) (T, error) {
		if !slices.Contains(v.words, text) {
			return "", notOneOf{text, v.words}
		}
		return T(text), nil
	}, "")
	return v
}

// notOneOf says that a word isn't one of a flag's values.
type notOneOf struct {
	word  string
	words []string
}

func (n notOneOf) Error() string { return n.word + " is not one of its values" }

// flagError says what is wrong with a flag in the words that all flags share.
func flagError(cmd *cobra.Command, err error) error {
	help := cmd.CommandPath() + " --help shows its flags"
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		if near := nearFlags(cmd, unknown.GetSpecifiedName()); len(near) > 0 {
			help = "did you mean " + quantity.Either(near) + "?"
		}
	}
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return hint.Usage(help, "%w", err)
	}
	name := "--" + invalid.GetFlag().Name
	var word notOneOf
	if errors.As(err, &word) {
		if share, ok := asShare(word.word); ok && name == "--fail-on" && cmd.Flags().Lookup("fail-share") != nil {
			return hint.Usage("a share of the time is for --fail-share "+share, "%s=%w", name, word)
		}
		return hint.Usage("write "+name+"="+quantity.Either(word.words), "%s=%w", name, word)
	}
	value := invalid.GetValue()
	if _, notNumber := strconv.ParseFloat(value, 64); notNumber == nil && strings.Contains(err.Error(), "missing unit in duration") {
		return hint.Usage("write "+name+"="+value+"s", "%s: %s has no unit", name, value)
	}
	if v, ok := invalid.GetFlag().Value.(interface{ Example() string }); ok {
		return hint.Usage(name+" "+v.Example(), "%s: %w", name, invalid.Unwrap())
	}
	var number *strconv.NumError // flags that pflag reads itself
	if errors.As(err, &number) {
		return hint.Usage(help, "%s: %q is not a number that it takes", name, value)
	}
	return hint.Usage(help, "%s: %w", name, invalid.Unwrap())
}

// nearFlags are the flags of a verb whose names are nearly that, as cobra finds verbs.
func nearFlags(cmd *cobra.Command, name string) (near []string) {
	names := &cobra.Command{SuggestionsMinimumDistance: 2}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
		}
	})
	for _, n := range names.SuggestionsFor(name) {
		near = append(near, "--"+n)
	}
	return near
}

// asShare writes as a percentage what may be intended as a share: 5%, or 0.05.
func asShare(text string) (share string, ok bool) {
	if strings.HasSuffix(text, "%") {
		return text, true
	}
	v, err := strconv.ParseFloat(text, 64)
	if err == nil && v <= 1 {
		v *= 100
	}
	return strconv.FormatFloat(v, 'g', 6, 64) + "%", err == nil
}
