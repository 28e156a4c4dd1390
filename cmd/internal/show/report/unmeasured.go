package report

import (
	"cmp"
	"fmt"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
)

// Unmeasured says that nothing of a program was looked at: the document has what the spec and the status of its pod say.
type Unmeasured struct {
	Why      string `json:"why"`
	NodeCPUs int    `json:"node_cpus,omitempty"` // 0: not known
}

// AsWritten is the word of an answer that relies on a spec alone.
const AsWritten = "as written"

// notMeasured belongs to every such answer.
const notMeasured = "This is what its pod says. Nothing was measured."

// asWritten is the answer by a spec in which nothing is wrong: the number and the limit.
func (d *Explain) asWritten() ExplainVerdict {
	under := cmp.Or(map[string]string{"none": "with no CPU limit"}[d.Limit.State], "with a CPU limit that is not known")
	if d.Limit.CPUs != nil {
		under = "under a limit of " + quantity.UsedCPUs(*d.Limit.CPUs)
	}
	text := "GOMAXPROCS is up to the program " + under
	if d.GOMAXPROCS.Value != nil {
		text = fmt.Sprintf("GOMAXPROCS is %d %s", *d.GOMAXPROCS.Value, under)
	}
	return ExplainVerdict{Word: AsWritten, Text: text, Also: []string{notMeasured}}
}
