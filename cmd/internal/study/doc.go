// Package study is a wing: a folder of packages, with no code of its own. Its packages answer: what should be measured next, and what do
// the measurements say? In go a plan; out comes a study: every run, and what they say together. The decisions are made in package search,
// the statistics in package sample; neither has a clock or starts a program. How to say it is up to wing show.
//
//	sample     what a set of measurements says, and how sure it is
//	search     what to measure next, and the verdict
//	lab        a fixed plan of runs, its journal, and what the runs say
//	generator  what a foreign load generator has printed
//	loadtest   a load next to what the limit did meanwhile, and the highest rate
//	trial      one run of one setting
//	tune       the best setting of a program, found by trying
package study
