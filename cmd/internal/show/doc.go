// Package show is a wing: a folder of packages, with no code of its own. Its packages answer: how does a result become a document, and a
// document a screen? In go facts and studies; out come JSON, text, Markdown, pages and what CI systems read. A sentence is made once, in
// package report. The packages below it compute and cut nothing.
//
//	report        what a verb found: a document a verb, and its sentences
//	inspect       what explain has to know about a process
//	sheet         what a screen shows, and in which order
//	chart         charts, as SVG and as characters
//	render        how a sheet looks as text, Markdown and a page
//	view          what a screen shows of a document: a file a verb
//	ci            results for systems that run builds: JUnit, SARIF
//	contracttest  what holds JSON documents to their description, for the tests
//	browsertest   a browser that looks at pages, for the tests
package show
