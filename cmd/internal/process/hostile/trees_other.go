//go:build !linux

package hostile

import "errors"

func pipe(string) error { return errors.ErrUnsupported }

func socket(string) error { return errors.ErrUnsupported }
