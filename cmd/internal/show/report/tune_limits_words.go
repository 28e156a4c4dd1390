package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/study/tune"
)

// limitWords make the sentences of a study of several limits.
type limitWords struct {
	d               *Tune
	plan            tune.Plan
	windows         int // that there are
	usual           int // how many it usually takes
	takes           time.Duration
	late            bool // the budget has no time for another
	failed          bool // an error ended it
	unfinished      bool // windows are wanted for the answer
	unfinishedRates bool // or for the highest rates only
}

// enough says that a limit is, how sure that is, and what the next smaller one did.
func (w limitWords) enough(i int) (text string, also []string) {
	l := &w.d.Limits[i]
	at := l.AtRate()
	text = "Set " + w.d.held(l)
	if !l.ByGo() {
		text += fmt.Sprintf(", and GOMAXPROCS=%d", l.Procs)
	}
	text += fmt.Sprintf(": %s held at %s.", w.plan.SLO, rateText(w.plan.Rate))
	if l.Memlimit != "" {
		also = append(also, fmt.Sprintf("Set GOMEMLIMIT=%s with it, as its runs had.", l.Memlimit))
	}
	also = append(also, "It held in "+w.counted(at)+".")
	if i > 0 {
		if below := w.below(&w.d.Limits[i-1]); below != "" {
			also = append(also, below)
		}
	}
	rare := "Rarer trouble may have been missed."
	if w.plan.LimitsMemory() {
		rare = "Rarer trouble may have been missed, and so may anything that builds up over hours."
		also = append(also, w.memory(i)...)
	} else {
		also = append(also, w.procs(l))
	}
	if at.Held == at.Of {
		const sure = 0.95
		always := math.Pow(1-sure, 1/float64(at.Of))
		also = append(also, fmt.Sprintf("All %d windows held it: at least %s of such windows do (95 %%). %s",
			at.Of, quantity.WholeShare(math.Floor(100*always)/100), rare))
	} else {
		also = append(also, fmt.Sprintf("Each by itself, %d of the %d windows held it.", at.Held, at.Of))
	}
	if w.unfinishedRates {
		left := "before the highest rates were known."
		if w.plan.LimitsMemory() {
			left = "before it was known what more memory saves."
		}
		also = append(also, w.ended(left))
	}
	return text, also
}

// counted are windows, and how many of their requests were beyond the SLO: "9 windows of 5 s, 27,000 requests, of which 0.4 % (at
// most 0.7 %, 95 %) were slower".
func (w limitWords) counted(at *TuneAtRate) string {
	share := fineShare(at.Share)
	switch {
	case at.Beyond == 0:
		share = "none"
	case at.bounded():
		share += fmt.Sprintf(" (at most %s, 95 %%)", fineShare(at.High))
	case at.Hit > 0:
		share += ", in " + quantity.Plural(at.Hit, "window") + ","
	}
	return fmt.Sprintf("%s of %s, %s, of which %s %s", quantity.Plural(at.Of, "window"), quantity.Brief(w.d.Loads[0].Window),
		quantity.Plural(at.Requests, "request"), share, w.did(at))
}

// bounded reports whether an upper bound of the share can be given: what comes in rare windows must be in some of them.
func (at *TuneAtRate) bounded() bool {
	const some = 5
	return at.Hit >= some
}

// seemsEnough reports whether a limit that is not shown to be enough seems so: no window missed the SLO, and there are some.
func (at *TuneAtRate) seemsEnough() bool {
	const some = 8
	return at.Of >= some && at.Held == at.Of && at.Share <= at.Allowed
}

// did is what the requests did that broke the SLO.
func (w limitWords) did(at *TuneAtRate) string {
	verb := "were"
	if at.Beyond == 0 {
		verb = "was"
	}
	goals, _ := tune.Goals(w.plan.SLO) // a study with another has no windows
	switch {
	case at.Failures:
		return "failed"
	case len(goals) > 1:
		return verb + " slower than " + at.Objective + " says"
	}
	return verb + " slower"
}

// short is what was beyond the SLO under a limit, and how sure that is.
func (w limitWords) short(at *TuneAtRate) string {
	if at.Killed > 0 {
		return fmt.Sprintf("the kernel killed it for lack of memory in %d of %s", at.Killed, quantity.Plural(at.Of, "window"))
	}
	bound := ""
	switch {
	case at.Answer == string(tune.Fails):
		bound = " (at least " + fineShare(at.Low) + ", 95 %)"
	case at.bounded():
		bound = " (at most " + fineShare(at.High) + ", 95 %)"
	}
	return fmt.Sprintf("%s of %s%s %s", fineShare(at.Share), quantity.Plural(at.Requests, "request"), bound, w.did(at))
}

// below says what the next smaller limit did.
func (w limitWords) below(l *TuneLimit) string {
	at := l.AtRate()
	switch {
	case at == nil:
		return ""
	case at.NoStart != "" && at.Killed > 0:
		return fmt.Sprintf("Under the next smaller, %s, the kernel killed it for lack of memory as it started.", w.d.LimitText(l))
	case at.NoStart != "":
		return fmt.Sprintf("Under the next smaller, %s, the server did not start.", w.d.LimitText(l))
	case l.lost() && at.Disturbed >= at.Void:
		return fmt.Sprintf("Whether the next smaller, %s, would do is not known: something else ran in its windows.", w.d.LimitText(l))
	case l.lost():
		return fmt.Sprintf("Whether the next smaller, %s, would do is not known: the generator did not send as planned.", w.d.LimitText(l))
	case at.Requests == 0:
		return ""
	case at.Again > 0:
		return fmt.Sprintf("The next smaller, %s, failed at first and held it in %s minutes later, as if the machine had been busy: %s. Another tune may settle it.",
			w.d.LimitText(l), quantity.Plural(at.Again, "window"), w.short(at))
	case l.Answer == string(tune.Full):
		return fmt.Sprintf("The next smaller, %s, leaves too little room: %s.", w.d.LimitText(l), l.used())
	case l.Answer == string(tune.Fails):
		return fmt.Sprintf("The next smaller, %s, fails: %s.", w.d.LimitText(l), w.short(at))
	case at.Share > at.Allowed:
		return fmt.Sprintf("The next smaller, %s, seems to fail: %s.", w.d.LimitText(l), w.short(at))
	}
	return fmt.Sprintf("The next smaller, %s, may do as well, but that is not proven: %s.", w.d.LimitText(l), w.short(at))
}

// procs says which GOMAXPROCS goes with a limit, and what that rests on.
func (w limitWords) procs(l *TuneLimit) string {
	byGo, other := l.Settings[0], l.Other()
	switch {
	case l.ByGo() && other == nil:
		return fmt.Sprintf("Leave GOMAXPROCS to Go, which chooses %d there.", byGo.Procs)
	case l.ByGo() && other.AtRate == nil:
		return fmt.Sprintf("Leave GOMAXPROCS to Go, which chooses %d there: that holds it, so %d was not compared.", byGo.Procs, other.Procs)
	case l.ByGo():
		return fmt.Sprintf("Leave GOMAXPROCS to Go, which chooses %d there.", byGo.Procs)
	case byGo.AtRate.NoStart != "":
		return fmt.Sprintf("With Go's default there, %d, the server did not start.", byGo.Procs)
	}
	not := "is not shown to hold it"
	if byGo.AtRate.Answer == string(tune.Fails) {
		not = "fails"
	}
	return fmt.Sprintf("Go's default there, %d, %s: %s. The two took turns, with the same arrivals.", byGo.Procs, not, w.short(byGo.AtRate))
}

// notShown says what is known where no limit is shown to be enough, and what more would take.
func (w limitWords) notShown() (text string, also []string) {
	const few = 3 // windows, with fewer of which nothing seems to be anything
	var seems, small, fails, open *TuneLimit
	largest := &w.d.Limits[len(w.d.Limits)-1]
	all, void, disturbed, older := true, 0, 0, false
	for i := range w.d.Limits {
		l := &w.d.Limits[i]
		at := l.AtRate()
		if l.Answer == string(tune.Fails) {
			fails = l
			continue
		}
		if all = false; at == nil || l.Answer == string(tune.Full) {
			continue
		}
		void += at.Void
		disturbed += at.Disturbed
		switch {
		case at.Requests == 0:
			older = older || at.Of > 0
		case at.Of < few:
		case at.Share > at.Allowed:
			small = l
		case seems == nil && at.seemsEnough():
			seems = l
		case open == nil:
			open = l
		}
	}
	asked := w.plan.SLO + " at " + rateText(w.plan.Rate)
	switch {
	case seems != nil:
		at := seems.AtRate()
		text = fmt.Sprintf("Undecided: %s seems enough, but that is not proven.", w.d.heldTo(seems))
		also = append(also, fmt.Sprintf("For %s: %s.", asked, w.counted(at)), w.more(at))
	case largest.Answer == string(tune.Full):
		text = fmt.Sprintf("Undecided: %s leaves too little room.", w.d.heldTo(largest))
		also = append(also, fmt.Sprintf("For %s %s. A larger limit would tell more.", asked, largest.used()))
	case all:
		text = fmt.Sprintf("Undecided: none of these limits holds %s.", asked)
		if at := fails.AtRate(); at != nil && (at.NoStart == "" || at.Killed > 0) {
			also = append(also, fmt.Sprintf("Under the largest, %s, %s.", w.d.LimitText(fails), w.short(at)))
		}
		also = append(also, "A larger limit, a lower rate or a looser objective would tell more.")
	case disturbed > 0 && disturbed >= void && !w.unfinished:
		text = fmt.Sprintf("Undecided: something else ran in %s.", quantity.Plural(disturbed, "window"))
		also = append(also, fmt.Sprintf("Which limit is enough for %s is not known: those windows say nothing. Run it again while the machine is quiet.", asked))
	case void > 0 && !w.unfinished:
		text = fmt.Sprintf("Undecided: which limit is enough for %s is not known.", asked)
		also = append(also, fmt.Sprintf("In %s the generator did not send as planned, and those say nothing.", quantity.Plural(void, "window")))
	case small != nil:
		text = fmt.Sprintf("Undecided: %s seems too small.", w.d.heldTo(small))
		also = append(also, fmt.Sprintf("For %s: %s.", asked, w.short(small.AtRate())))
	case fails != nil:
		text = fmt.Sprintf("Undecided: %s is not enough.", w.d.heldTo(fails))
		also = append(also, fmt.Sprintf("Which larger one is enough for %s is not known.", asked))
		if open != nil {
			also = append(also, w.soFar(open)...)
		}
	case open != nil:
		text = fmt.Sprintf("Undecided: which limit is enough for %s is not known.", asked)
		also = append(also, w.soFar(open)...)
	default:
		text = fmt.Sprintf("Undecided: which limit is enough for %s is not known.", asked)
	}
	if older {
		return text, append(also, "These windows are from an older version, which did not count slow requests; --resume measures again.")
	}
	if w.unfinished {
		also = append(also, w.ended(fmt.Sprintf("after %s.", quantity.Plural(w.windows, "window"))))
	}
	if w.late && seems == nil {
		also = append(also, fmt.Sprintf("It usually takes %s to know, %s here.", quantity.Plural(w.usual, "window"), w.lasting(w.usual)))
	}
	return text, also
}

// soFar is what is known of a limit that is neither shown to be enough nor not to be.
func (w limitWords) soFar(l *TuneLimit) []string {
	at := l.AtRate()
	return []string{fmt.Sprintf("Under %s it held in %d of %s.", w.d.LimitText(l), at.Held, w.counted(at)), w.more(at)}
}

// more says what would settle it.
func (w limitWords) more(at *TuneAtRate) string {
	if at.More == 0 {
		return "No reasonable number of windows would settle it: a larger limit, a lower rate or a looser objective would."
	}
	text := fmt.Sprintf("bout %s, %s, would settle it.", quantity.Plural(at.More, "more window"), w.lasting(at.More))
	if at.Of < tune.HoldWindows {
		return fmt.Sprintf("%s would not show what is bad in every fifth: a%s", quantity.Plural(at.Of, "window"), text)
	}
	return "A" + text
}

// lasting is how long this many windows take, by those made so far.
func (w limitWords) lasting(windows int) string {
	each := w.takes.Seconds() / float64(w.usual)
	if w.windows > 0 {
		each = w.d.Seconds / float64(w.windows)
	}
	return quantity.Countdown(time.Duration(float64(windows) * each * float64(time.Second)))
}

// ended says why there are no more windows.
func (w limitWords) ended(when string) string {
	if w.late {
		return fmt.Sprintf("The budget of %s ended %s", quantity.Lasting(w.plan.Budget.Seconds()), when)
	}
	return "It was interrupted " + when
}

// howToLimit says how a limit is set, and a GOMAXPROCS if it takes one that Go does not choose.
func howToLimit(l *TuneLimit) []TuneHow {
	if l.CPUs == 0 {
		return nil
	}
	cpu := short(l.CPUs)
	if l.CPUs != math.Trunc(l.CPUs) {
		cpu = strconv.Itoa(int(math.Round(1000*l.CPUs))) + "m"
	}
	kube, docker := "kubectl set resources deployment/NAME --limits=cpu="+cpu, "docker run --cpus "+short(l.CPUs)
	unit := "systemctl set-property NAME.service CPUQuota=" + strconv.Itoa(int(math.Round(100*l.CPUs))) + "%"
	if !l.ByGo() {
		env := environment(l.Procs, 0, "", 0, nil, nil).String()
		kube += "\nkubectl set env deployment/NAME " + env
		docker += " -e " + env
		unit += "\nsystemctl edit NAME.service\n[Service]\nEnvironment=" + env
	}
	return []TuneHow{{"Kubernetes", kube}, {"docker", docker + " IMAGE"}, {"systemd", unit}}
}

// howToLimitMemory says how a memory limit is set, and the GOMEMLIMIT that goes with it.
func howToLimitMemory(l *TuneLimit) []TuneHow {
	if l.Memory == 0 {
		return nil
	}
	kube, short := strconv.FormatInt(l.Memory, 10), strconv.FormatInt(l.Memory, 10)
	if l.Memory%(1<<20) == 0 {
		mib := strconv.FormatInt(l.Memory>>20, 10)
		kube, short = mib+"Mi", mib+"M"
	}
	how := []TuneHow{
		{"Kubernetes", "kubectl set resources deployment/NAME --limits=memory=" + kube},
		{"docker", "docker run --memory " + strings.ToLower(short)},
		{"systemd", "systemctl set-property NAME.service MemoryMax=" + short},
	}
	if l.Memlimit != "" {
		env := variables{{"GOMEMLIMIT", l.Memlimit}}.String()
		how[0].Text += "\nkubectl set env deployment/NAME " + env
		how[1].Text += " -e " + env
		how[2].Text += "\nsystemctl edit NAME.service\n[Service]\nEnvironment=" + env
	}
	how[1].Text += " IMAGE"
	return how
}

// used is what the server took of a memory limit.
func (l *TuneLimit) used() string {
	return fmt.Sprintf("it used %s of %s at the peak of a typical window", quantity.Bytes(l.Peak), quantity.Bytes(l.Memory))
}

// memory says what a memory limit leaves, and what a larger one would save.
func (w limitWords) memory(i int) (also []string) {
	if l := &w.d.Limits[i]; l.Peak > 0 && l.Memory > 0 {
		also = append(also, capital(l.used())+".")
	}
	if l := &w.d.Limits[i]; l.Memory > 0 && l.Peak+l.File > l.Memory {
		also = append(also, fmt.Sprintf("On a node that has not read the program's file yet, %s of it count as well: it starts more slowly there under less than %s.",
			quantity.Bytes(l.File), quantity.Bytes((l.Peak+l.File+1<<20-1)>>20<<20)))
	}
	largest := &w.d.Limits[len(w.d.Limits)-1] // of one comparison the interval is what it says
	if b := largest.Beside; b != nil && b.High > 0 {
		saves := "More memory has not been shown to save CPU time"
		if b.High < 1 {
			saves = "More memory saves CPU time"
		}
		also = append(also, fmt.Sprintf("%s: with %s %s a request (%s).", saves, w.d.LimitText(largest), quantity.Change(b.Ratio), quantity.Changes(b.Low, b.High)))
	}
	return also
}

// fineShare writes a share with two digits, however small it is.
func fineShare(share float64) string {
	if share <= 0 {
		return "0 %"
	}
	unit := math.Pow(10, math.Floor(math.Log10(100*share))-1)
	return quantity.Number(math.Round(100*share/unit)*unit) + " %"
}

// LimitsMemory reports whether several memory limits were tried.
func (d *Tune) LimitsMemory() bool {
	return slices.ContainsFunc(d.Limits, func(l TuneLimit) bool { return l.Memory > 0 })
}

// LimitText is one of the limits that were tried.
func (d *Tune) LimitText(l *TuneLimit) string {
	switch {
	case l.Memory > 0:
		return quantity.Bytes(l.Memory)
	case d.LimitsMemory():
		return "no memory limit"
	}
	return cpusText(l.CPUs)
}

// held is a limit as what to set: a limit of 1 CPU.
func (d *Tune) held(l *TuneLimit) string {
	switch {
	case l.Memory > 0:
		return "a memory limit of " + d.LimitText(l)
	case l.CPUs == 0 || d.LimitsMemory():
		return d.LimitText(l)
	}
	return "a limit of " + d.LimitText(l)
}

// heldTo is a limit, or its absence, as what is or isn't enough.
func (d *Tune) heldTo(l *TuneLimit) string {
	if text := d.held(l); strings.HasPrefix(text, "no ") {
		return "running with " + text
	}
	return d.held(l)
}

func cpusText(cpus float64) string {
	switch cpus {
	case 0:
		return "no limit"
	case 1:
		return "1 CPU"
	}
	return short(cpus) + " CPUs"
}

// RatesNote says what the rates are in the table of limits.
func (d *Tune) RatesNote() string {
	const note = "The rates are the highest at which each GOMAXPROCS holds the SLO; → marks the better one"
	const guess = "They are of one search each, and nothing confirms them."
	for _, l := range d.Limits {
		for _, s := range l.Settings {
			if s.Default {
				return note + ", * what Go chooses by itself. " + guess
			}
		}
	}
	return note + ". " + guess
}

// HeldNote says which windows were held, and that these other columns are of them too.
func (d *Tune) HeldNote(columns ...string) string {
	at := "your rate"
	if n := d.Verdict.Load; n >= 0 && n < len(d.Loads) && d.Loads[n].Rate > 0 {
		at += " of " + quantity.PerSecond(d.Loads[n].Rate)
	}
	text := fmt.Sprintf("Held: windows at %s in which the better one held it", at)
	switch {
	case d.LimitsMemory():
		text = fmt.Sprintf("Held: windows at %s that held it by themselves", at)
	case d.pooled():
		text = fmt.Sprintf("Held: windows at %s that held it by themselves, with Go's default where no other is named", at)
	}
	switch len(columns) {
	case 0:
		return text + "."
	case 1:
		return text + "; " + columns[0] + " is of these."
	}
	return text + "; " + quantity.List(columns) + " are of these."
}

// pooled reports whether limits are judged by the requests of all windows, which is so in all but older documents.
func (d *Tune) pooled() bool {
	for _, l := range d.Limits {
		if l.Answer != "" {
			return true
		}
	}
	return false
}

// SlowerNote says what the shares are in the table of limits; "" if it has none.
func (d *Tune) SlowerNote() string {
	for i := range d.Limits {
		if d.Limits[i].Slower() != "" {
			return "Slower: requests of these windows that were slower than the SLO says or failed, and a 95 % bound of that share, by whole windows, where five of them have any."
		}
	}
	return ""
}

// Slower is the share of the requests at the user's rate that were beyond the SLO, and the bound that its answer rests on; "": it
// is not known.
func (l *TuneLimit) Slower() string {
	at := l.AtRate()
	switch {
	case at == nil || at.Requests == 0 || at.NoStart != "":
		return ""
	case at.Answer == string(tune.Fails):
		return fineShare(at.Share) + " (≥" + fineShare(at.Low) + ")"
	}
	if !at.bounded() {
		return fineShare(at.Share)
	}
	return fineShare(at.Share) + " (≤" + fineShare(at.High) + ")"
}

// smallest reports whether a limit is the smallest that will do, and the next smaller one is not merely open; larger whether a smaller
// one will do.
func (d *Tune) smallest(l *TuneLimit) bool {
	i := d.place(l)
	return i == d.enough() && (i == 0 || d.Limits[i-1].Answer != string(tune.Open))
}

func (d *Tune) larger(l *TuneLimit) bool { return d.enough() >= 0 && d.place(l) > d.enough() }

// lost reports whether all windows at the user's rate were lost: the generator has spoilt them, or something else ran.
func (l *TuneLimit) lost() bool {
	at := l.AtRate()
	return at != nil && at.Of == 0 && at.Void+at.Disturbed > 0
}

func (d *Tune) enough() int {
	return slices.IndexFunc(d.Limits, func(l TuneLimit) bool { return l.Will })
}

func (d *Tune) place(l *TuneLimit) int {
	return slices.IndexFunc(d.Limits, func(other TuneLimit) bool { return other.under() == l.under() })
}

// Enough says whether a limit will do.
func (d *Tune) Enough(l *TuneLimit) string {
	at := l.AtRate()
	switch {
	case l.Will && d.smallest(l):
		return "yes, smallest"
	case d.LimitsMemory() && d.larger(l):
		return "" // than what will do: it was measured for what it costs
	case l.Will:
		return "yes"
	case l.Of == 0:
		return ""
	case l.Answer == string(tune.Full):
		return "too full"
	case l.Answer != string(tune.Open) && at != nil && at.Killed > 0:
		return "out of memory"
	case l.Answer != string(tune.Open):
		return "no"
	case at == nil || at.Requests == 0:
		return "not known"
	case at.Share > at.Allowed:
		return "seems not"
	case at.seemsEnough():
		return "seems so"
	}
	return "not known"
}
