//go:build unthrottle && memory

package main

import _ "github.com/unthrottle/unthrottle/auto/memory"
