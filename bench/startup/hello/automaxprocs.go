//go:build automaxprocs

package main

import _ "go.uber.org/automaxprocs"
