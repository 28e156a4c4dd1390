//go:build automemlimit

package main

import _ "github.com/KimMachineGun/automemlimit"
