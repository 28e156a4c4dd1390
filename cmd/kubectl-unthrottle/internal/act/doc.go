// Package act is a wing: a folder of packages, with no code of its own. Its packages answer: what runs in the cluster, and how does it get
// there? Servers, agents and trials, and what asks them. What a finding is comes from wing judge.
//
//	webhook   what a pod that is about to be made needs
//	door      who may come in to a server of ours
//	certs     which certificate a server of ours shows, and how it comes to be trusted
//	install   how the agents get into a cluster, and out again
//	alert     which metrics should alert someone, and what the alert says
//	agent     the Go programs of a node
//	agents    what the agents of a cluster say, and which programs run there
//	once      what a node without an agent says, looked at once
//	inpod     what unthrottle says inside of a pod
//	podtrial  one run of one setting, in pods
package act
