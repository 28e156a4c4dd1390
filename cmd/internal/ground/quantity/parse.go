package quantity

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ParseShare reads a share of 1: 5%, 0.1 %. Without the sign a number may mean two things: 0.05 could be 5 % or a twentieth
// of a per cent, and so it is refused. Above 1 it can only be a percentage, and 0 is the same in both.
func ParseShare(text string) (float64, error) {
	digits, percent := strings.CutSuffix(text, "%")
	digits = strings.TrimSpace(digits)
	v, err := strconv.ParseFloat(digits, 64)
	switch {
	case err != nil || !(v >= 0) || v > 1e6:
		return 0, fmt.Errorf("%q is not a share such as 5%%", text)
	case !percent && v > 0 && v <= 1:
		return 0, fmt.Errorf("%q could be %s%% or %s%%: write the one you mean", text, digits, strconv.FormatFloat(v*100, 'g', 6, 64))
	}
	return v / 100, nil
}

// ParseCPUs reads a number of CPUs: 0.5, or 500m as Kubernetes writes it.
func ParseCPUs(text string) (float64, error) {
	digits, milli := strings.CutSuffix(text, "m")
	v, err := strconv.ParseFloat(digits, 64)
	if err != nil || !(v > 0) || v > 1<<20 {
		return 0, fmt.Errorf("%q is not a number of CPUs such as 0.5 or 500m", text)
	}
	if milli {
		v /= 1000
	}
	return v, nil
}

// ParseBytes reads a size: 512m and 512MiB are both 512·2²⁰ bytes.
func ParseBytes(text string) (int64, error) {
	digits := strings.ToLower(text)
	digits = strings.TrimSuffix(strings.TrimSuffix(digits, "b"), "i")
	shift := 0
	if n := len(digits); n > 0 {
		if i := strings.IndexByte("kmgt", digits[n-1]); i >= 0 {
			shift, digits = 10*(i+1), digits[:n-1]
		}
	}
	v, err := strconv.ParseFloat(digits, 64)
	if v *= float64(int64(1) << shift); err != nil || !(v >= 1) || v > 1<<60 {
		return 0, fmt.Errorf("%q is not a size such as 512m or 2g", text)
	}
	return int64(v), nil
}

// ParseRate reads a number of requests a second: 500, 0.5, 20k, 500/s.
func ParseRate(text string) (float64, error) {
	digits, factor := strings.TrimSuffix(text, "/s"), 1.0
	if n := len(digits); n > 0 {
		switch digits[n-1] {
		case 'k', 'K':
			digits, factor = digits[:n-1], 1e3
		case 'm', 'M':
			digits, factor = digits[:n-1], 1e6
		}
	}
	v, err := strconv.ParseFloat(digits, 64)
	if v *= factor; err != nil || !(v > 0 && v <= 1e7) {
		return 0, fmt.Errorf("%q is not a number of requests a second such as 500", text)
	}
	return v, nil
}

// A RateRange is a rate that changes evenly. From and To are the same where it does not.
type RateRange struct{ From, To float64 }

// Mean is the rate on average.
func (r RateRange) Mean() float64 { return (r.From + r.To) / 2 }

// EndRate is the rate at which an evenly changing one ends, from its mean and its beginning.
func EndRate(mean, from float64) float64 { return 2*mean - from }

// ParseRateRange reads a rate, or two: 100..1000.
func ParseRateRange(text string) (r RateRange, err error) {
	from, to, changes := strings.Cut(text, "..")
	if r.From, err = ParseRate(from); err != nil || !changes {
		return RateRange{r.From, r.From}, err
	}
	r.To, err = ParseRate(to)
	return r, err
}

// ParseCPUList reads CPUs by their numbers: 0-3,8.
func ParseCPUList(text string) ([]int, error) {
	var set []int
	for _, part := range strings.Split(text, ",") {
		low, high, isRange := strings.Cut(part, "-")
		if !isRange {
			high = low
		}
		a, errA := strconv.Atoi(low)
		b, errB := strconv.Atoi(high)
		if errA != nil || errB != nil || a < 0 || a > b || b >= 1024 {
			return nil, fmt.Errorf("%q is not a list of CPUs such as 0-3,8", text)
		}
		for ; a <= b; a++ {
			set = append(set, a)
		}
	}
	return set, nil
}

// MostWhole is the largest number of a list: no GOMAXPROCS and no GOGC is above it.
const MostWhole = 1 << 16

// ParseWholes reads a list of whole numbers above zero, each once: 1,2,4. Words stand for numbers of their own, such as max.
func ParseWholes(text string, words map[string]int) (list []int, err error) {
	for _, part := range strings.Split(text, ",") {
		n, known := words[part]
		if !known {
			switch n, err = strconv.Atoi(part); {
			case err != nil && !errors.Is(err, strconv.ErrRange) || n < 1:
				return nil, fmt.Errorf("%q is not a whole number above 0", part)
			case n > MostWhole:
				return nil, fmt.Errorf("%s is more than %d", part, MostWhole)
			}
		}
		if !slices.Contains(list, n) {
			list = append(list, n)
		}
	}
	return list, nil
}

// ParseList reads a list of one kind of quantity: 40%,65%.
func ParseList[T any](text string, parse func(string) (T, error)) (list []T, err error) {
	for _, part := range strings.Split(text, ",") {
		v, err := parse(part)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

// Value makes a variable the value of a flag, which is read by one of the functions above. The example is for users who got it wrong. It
// implements pflag.Value.
func Value[T any](to *T, parse func(string) (T, error), example string) *FlagValue[T] {
	return &FlagValue[T]{to: to, parse: parse, example: example}
}

// A FlagValue is a flag's value of some quantity.
type FlagValue[T any] struct {
	to            *T
	parse         func(string) (T, error)
	text, example string
}

// Set reads a value from the command line.
func (f *FlagValue[T]) Set(text string) error {
	v, err := f.parse(text)
	if err != nil {
		return err
	}
	*f.to, f.text = v, text
	return nil
}

// String is the value as it was written.
func (f *FlagValue[T]) String() string { return f.text }

// Type is what pflag calls the value.
func (f *FlagValue[T]) Type() string { return "quantity" }

// Example is how a value is written.
func (f *FlagValue[T]) Example() string { return f.example }
