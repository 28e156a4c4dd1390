package freeze

// fullHost is the share of a host's CPUs from which on they count as in use. At 85 % a thread that becomes ready finds none free more often
// than not on 2 to 8 CPUs (78 to 57 % of the times, by Erlang's formula for what arrives at random), and less often on more. A higher share
// would miss real waits on small hosts, and is not needed against false ones: no program is called contended because its host is full, but
// because its threads were seen to wait there. The host only distinguishes such waits from those on an idle one, where threads that run for
// microseconds wait about as long for each start.
const fullHost = 0.85

// FullHost reports whether the CPUs of a host are in use, so that a program may be waiting for others: inUse of them were on average, with
// those that a hypervisor took.
func FullHost(inUse float64, cpus int) bool { return cpus > 0 && inUse >= fullHost*float64(cpus) }
