package report

import "fmt"

// Bounds of a saved document. The largest that is known, a tune of 300 runs, has 300 KB with 2,200 objects and 10,200 values, and
// nests 9 deep; a profile's functions are written as a list. A trace has up to 20,000 freezes, a ps of a host of 5,000 programs some
// 50,000 objects. Of an object of two bytes becomes a value of some hundred to six hundred, and some sentences compare all with
// all, so that their number is bounded, too.
const (
	MostBytes   = 64 << 20
	mostObjects = 100_000
	mostValues  = 2_000_000
	mostDepth   = 500
)

// checkSize looks at the brackets and commas of a document, or of lines of them, before anything is made of it.
func checkSize(data []byte) error {
	if len(data) > MostBytes {
		return fmt.Errorf("the document has more than %d MiB: no verb writes one like that", MostBytes>>20)
	}
	objects, values, depth := 0, 0, 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			i = endOfString(data, i)
		case '{':
			objects++
			depth++
		case '[':
			values++
			depth++
		case ',':
			values++
		case '}', ']':
			depth--
		}
		switch {
		case objects > mostObjects:
			return fmt.Errorf("the document has more than %d objects: no verb writes one like that", mostObjects)
		case values > mostValues:
			return fmt.Errorf("the document has more than %d values: no verb writes one like that", mostValues)
		case depth > mostDepth:
			return fmt.Errorf("the document nests more than %d deep: no verb writes one like that", mostDepth)
		}
	}
	return nil
}

// endOfString is where the string ends that begins at i.
func endOfString(data []byte, i int) int {
	for i++; i < len(data) && data[i] != '"'; i++ {
		if data[i] == '\\' {
			i++
		}
	}
	return i
}
