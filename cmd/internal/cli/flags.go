package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/unthrottle/unthrottle/cmd/internal/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/load"
	"github.com/unthrottle/unthrottle/cmd/internal/quantity"
)

// flagList is the flags of a verb in the sections of its help. What is said of a flag stands beside its registration and
// nowhere else: from there come its line in the help and its description in the shell's completion.
type flagList struct {
	cmd      *cobra.Command
	sections []*flagSection
}

// A flagSection is flags with a title. Its flags are registered as "NAME\tdescription", or as a description alone where
// there is no value to be named.
type flagSection struct {
	*pflag.FlagSet
	title string
	as    string // the verb that these flags are described at; "": they are described here
}

func newFlagList(cmd *cobra.Command) *flagList { return &flagList{cmd: cmd} }

// section begins a section of the help.
func (l *flagList) section(title string) *flagSection {
	s := &flagSection{FlagSet: pflag.NewFlagSet(title, pflag.ContinueOnError), title: title}
	s.SortFlags = false
	l.sections = append(l.sections, s)
	return s
}

// like is a section of flags that another verb has too, and describes.
func (l *flagList) like(verb string) *flagSection {
	s := l.section("")
	s.as = verb
	return s
}

// flagsHere is where the sections stand in a help text.
const flagsHere = "{{flags}}\n"

// done adds the flags to the verb, and their sections to its help.
func (l *flagList) done() {
	for _, s := range l.sections {
		s.VisitAll(func(f *pflag.Flag) {
			if name, about, ok := strings.Cut(f.Usage, "\t"); ok {
				f.Usage, f.Annotations = about, map[string][]string{valueName: {name}}
			}
		})
		l.cmd.Flags().AddFlagSet(s.FlagSet)
		s.VisitAll(func(f *pflag.Flag) {
			if v, ok := f.Value.(*wordValue); ok {
				l.complete(f.Name, v.words...)
			}
		})
	}
	l.cmd.Long = strings.Replace(l.cmd.Long, flagsHere, l.text(), 1)
}

// complete lets the shell complete a flag's value.
func (l *flagList) complete(flag string, words ...string) {
	if err := l.cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // there is no such flag
	}
}

// valueName is the annotation in which a flag's value has its name.
const valueName = "value"

// Columns of a help text.
const (
	helpWidth = 118
	flagsWide = 22 // the flags at most; longer ones have their description in the next line
)

func (l *flagList) text() string {
	wide := 0
	for _, s := range l.sections {
		if s.as == "" {
			s.VisitAll(func(f *pflag.Flag) {
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
			s.VisitAll(func(f *pflag.Flag) { names = append(names, strings.TrimSpace(flagNames(f))) })
			b.WriteString(hanging("  ", strings.Join(names, ", ")+": as in unthrottle "+s.as))
			continue
		}
		if s.title != "" {
			b.WriteString(s.title + "\n")
		}
		s.VisitAll(func(f *pflag.Flag) {
			text := flagText(f)
			n := len([]rune(text))
			if n > wide { // the description goes below it
				b.WriteString(text + "\n")
				text, n = "", 0
			}
			b.WriteString(hanging(text+strings.Repeat(" ", wide-n)+"  ", f.Usage))
		})
	}
	return b.String()
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
	if name := f.Annotations[valueName]; len(name) > 0 {
		return flagNames(f) + " " + name[0]
	}
	return flagNames(f)
}

// hanging writes a text of several lines, all but the first indented as far as what it begins with.
func hanging(begin, text string) string {
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

// Flags that several verbs have.

func jsonFlag(flags *pflag.FlagSet, to *bool) {
	flags.BoolVar(to, "json", false, "the document instead of text")
}

func outputFlag(flags *pflag.FlagSet, to *string) {
	flags.StringVarP(to, "output", "o", "", "F\twrite to file F, as what its name ends in: .json, .html or .md; else as text")
}

func outputsFlag(flags *pflag.FlagSet, to *[]string, endings string) {
	flags.StringArrayVarP(to, "output", "o", nil, "F\talso write F: "+endings+"; may be repeated")
}

func arrivalsFlag(flags *pflag.FlagSet, to *load.Arrivals) {
	*to = load.Poisson
	flags.Var(oneOf(to, load.Poisson, load.Constant), "arrivals", "A\tpoisson, as users come, or const (poisson)")
}

// marginFlag adds --margin, whose usual value is 5 %.
func marginFlag(flags *pflag.FlagSet, to *float64) {
	*to = 0.05
	parse := func(text string) (float64, error) {
		v, err := quantity.ParseShare(text)
		if err == nil && v >= 1 {
			err = fmt.Errorf("%q is too much: a margin is below 100%%", text)
		}
		return v, err
	}
	flags.Var(quantity.Value(to, parse, "5%"), "margin", "P\ta smaller difference is not worth while (5%)")
}

// failOnFlag adds --fail-on and returns what reads it: nil where it is not given.
func failOnFlag(flags *pflag.FlagSet) func() *finding.Severity {
	word := ""
	flags.Var(oneOf(&word, finding.Info.String(), finding.Warning.String(), finding.Critical.String()), "fail-on",
		"S\texit with 3 if something is found of severity info, warning or critical, or above it")
	return func() *finding.Severity {
		if word == "" {
			return nil
		}
		s := new(finding.Severity)
		if err := s.UnmarshalText([]byte(word)); err != nil {
			panic(err) // it is one of the words above
		}
		return s
	}
}

// failShareFlag adds --fail-share, which is 0 where it is not given.
func failShareFlag(flags *pflag.FlagSet, to *float64, what string) {
	parse := func(text string) (float64, error) {
		share, err := quantity.ParseShare(text)
		if err == nil && !(share > 0 && share <= 1) {
			err = fmt.Errorf("%q is not a share above 0 %% and up to 100 %%", text)
		}
		return share, err
	}
	flags.Var(quantity.Value(to, parse, "5%"), "fail-share", "S\texit with 3 if it is "+what+" for so much of the time or more: 5%")
}

// exceeds reports whether something was found of a severity or above it; nil: nobody asks.
func exceeds(findings []finding.Finding, at *finding.Severity) bool {
	return at != nil && slices.ContainsFunc(findings, func(f finding.Finding) bool { return f.Severity >= *at })
}

// A wordValue is the value of a flag that takes one of a few words.
type wordValue struct {
	words []string
	set   func(string)
	get   func() string
}

// oneOf makes a variable the value of a flag that takes one of a few words; it keeps what it is until the flag is given.
func oneOf[T ~string](to *T, words ...T) *wordValue {
	v := &wordValue{set: func(word string) { *to = T(word) }, get: func() string { return string(*to) }}
	for _, w := range words {
		v.words = append(v.words, string(w))
	}
	return v
}

// Set takes a word from the command line.
func (v *wordValue) Set(text string) error {
	if !slices.Contains(v.words, text) {
		return notOneOf{text, v.words}
	}
	v.set(text)
	return nil
}

// String is the word as it is.
func (v *wordValue) String() string { return v.get() }

// Type is what a help text calls the value.
func (v *wordValue) Type() string { return "word" }

// notOneOf says that a word is none of a flag's values.
type notOneOf struct {
	word  string
	words []string
}

func (n notOneOf) Error() string { return n.word + " is none of its values" }

// flagError says what is wrong with a flag in the words that all flags share.
func flagError(cmd *cobra.Command, err error) error {
	help := cmd.CommandPath() + " --help shows its flags"
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
	if v, ok := invalid.GetFlag().Value.(interface{ Example() string }); ok {
		return hint.Usage(name+" "+v.Example(), "%s: %w", name, invalid.Unwrap())
	}
	return hint.Usage(help, "%w", err)
}

// asShare writes as a percentage what may be meant as a share: 5%, or 0.05.
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
