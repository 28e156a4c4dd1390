package quantity

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// A Resource is an amount as Kubernetes writes it: 500m, 0.5, 2k, 100Ki, 1e3. It is exact.
type Resource struct{ exact big.Rat }

// The longest text and the largest exponent that ParseResource reads. Nothing that means anything is beyond them, and they
// keep the exact number small.
const (
	longestResource = 128
	largestExponent = 100
	beyondAnyNumber = math.MaxInt64
)

// resourceUnits are the suffixes of Kubernetes: powers of ten, and of two.
var resourceUnits = map[string]struct{ ten, two int }{
	"": {}, "n": {ten: -9}, "u": {ten: -6}, "m": {ten: -3},
	"k": {ten: 3}, "M": {ten: 6}, "G": {ten: 9}, "T": {ten: 12}, "P": {ten: 15}, "E": {ten: 18},
	"Ki": {two: 10}, "Mi": {two: 20}, "Gi": {two: 30}, "Ti": {two: 40}, "Pi": {two: 50}, "Ei": {two: 60},
}

// ParseResource reads an amount as the API server does: a sign, digits with a point, and a suffix or an exponent. As there, a
// part may be missing: a bare "m" is 0.
func ParseResource(text string) (Resource, error) {
	wrong := fmt.Errorf("%q is not a quantity such as 500m, 1.5 or 512Mi", shortened(text))
	if text == "" || len(text) > longestResource {
		return Resource{}, wrong
	}
	rest, negative := text, false
	if text[0] == '-' || text[0] == '+' {
		rest, negative = text[1:], text[0] == '-'
	}
	whole, rest := digits(rest)
	fraction := ""
	if strings.HasPrefix(rest, ".") {
		fraction, rest = digits(rest[1:])
	}
	ten, two, ok := resourceUnit(rest)
	if !ok {
		return Resource{}, wrong
	}
	var mantissa big.Int
	mantissa.SetString("0"+whole+fraction, 10)
	if negative {
		mantissa.Neg(&mantissa)
	}
	ten -= len(fraction)
	var r Resource
	r.exact.SetInt(&mantissa)
	factor := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(ten, -ten))), nil))
	if ten < 0 {
		factor.Inv(factor)
	}
	r.exact.Mul(&r.exact, factor)
	r.exact.Mul(&r.exact, new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), uint(two))))
	return r, nil
}

// resourceUnit reads what follows the digits: a suffix, or an exponent such as e3.
func resourceUnit(text string) (ten, two int, ok bool) {
	if unit, known := resourceUnits[text]; known {
		return unit.ten, unit.two, true
	}
	if text[0] != 'e' && text[0] != 'E' {
		return 0, 0, false
	}
	exponent, err := strconv.Atoi(text[1:])
	if err != nil || exponent > largestExponent || exponent < -largestExponent {
		return 0, 0, false
	}
	return exponent, 0, true
}

// digits cuts the digits off that a text begins with.
func digits(text string) (string, string) {
	n := 0
	for n < len(text) && text[n] >= '0' && text[n] <= '9' {
		n++
	}
	return text[:n], text[n:]
}

func shortened(text string) string {
	if len(text) > longestResource {
		return strings.ToValidUTF8(text[:longestResource], "") + "…"
	}
	return text
}

// Float is the amount as a number: CPUs, or bytes.
func (r Resource) Float() float64 {
	v, _ := r.exact.Float64()
	return v
}

// Milli is the amount in thousandths, rounded away from zero as Kubernetes does.
func (r Resource) Milli() int64 {
	return roundedAway(new(big.Rat).Mul(&r.exact, big.NewRat(1000, 1)))
}

// Whole is the amount rounded away from zero as Kubernetes does.
func (r Resource) Whole() int64 { return roundedAway(&r.exact) }

func roundedAway(v *big.Rat) int64 {
	q, rest := new(big.Int).QuoRem(v.Num(), v.Denom(), new(big.Int))
	if rest.Sign() != 0 {
		q.Add(q, big.NewInt(int64(v.Sign())))
	}
	switch {
	case q.IsInt64():
		return q.Int64()
	case q.Sign() < 0:
		return -beyondAnyNumber
	}
	return beyondAnyNumber
}
