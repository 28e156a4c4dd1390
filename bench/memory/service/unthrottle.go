//go:build unthrottle

package main

import _ "github.com/unthrottle/unthrottle/auto/memory"
