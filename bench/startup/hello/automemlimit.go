//go:build automaxprocs && automemlimit

package main

import _ "github.com/KimMachineGun/automemlimit"
