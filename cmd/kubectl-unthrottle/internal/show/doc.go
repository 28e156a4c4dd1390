// Package show is a wing: a folder of packages, with no code of its own. Its packages answer: how does a result of the cluster side become
// a document and a screen? It adds documents and views to the command's wing of the same name. It has no renderer of its own.
//
//	result  the documents: a file a verb
//	page    what a screen shows of them: a file a verb
package show
