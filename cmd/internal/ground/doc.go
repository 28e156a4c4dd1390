// Package ground is a wing: a folder of packages, with no code of its own. This is the lowest wing. Its packages answer: how do numbers,
// errors and other people's text become text of ours, and how are other users' files and servers opened? It knows nothing of Go programs,
// limits or measurements. Everything else may use it.
//
//	plain     other people's text, made safe to print
//	input     a file that the user named, read within bounds
//	hint      what to do about an error
//	ours      files and directories that no one else may touch
//	quantity  how a number is written, and which number a text means
//	schema    what a JSON document looks like
//	web       the one way to make an HTTP client
//	finding   what a diagnosis says, with its severity
package ground
