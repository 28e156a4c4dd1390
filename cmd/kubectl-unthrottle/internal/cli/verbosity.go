package cli

import (
	"flag"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/plain"
)

// A verbosity is kubectl's -v: from 6 on, client-go logs each request. A process has one log, so this is where it is set.
type verbosity struct{ cmd *cobra.Command }

// mostVerbose is the level above which whole answers are logged: a token may be among them, and anything that a pod has answered.
const mostVerbose = 7

func (v verbosity) String() string { return "" }
func (v verbosity) Type() string   { return "int" }

func (v verbosity) Set(text string) error {
	level, err := strconv.Atoi(text)
	if err != nil || level < 0 {
		return fmt.Errorf("%q is not a level from 0 up", text)
	}
	var log flag.FlagSet
	klog.InitFlags(&log)
	for name, value := range map[string]string{
		"v": strconv.Itoa(min(level, mostVerbose)), "logtostderr": "false", "one_output": "true", "stderrthreshold": "FATAL",
	} {
		if err := log.Set(name, value); err != nil {
			return err
		}
	}
	klog.SetOutput(plainly{v.cmd.ErrOrStderr()})
	return nil
}

// plainly writes lines without what others may have hidden in them.
type plainly struct{ to io.Writer }

func (p plainly) Write(text []byte) (int, error) {
	if _, err := io.WriteString(p.to, plain.Lines(string(text), "")); err != nil {
		return 0, err
	}
	return len(text), nil
}
