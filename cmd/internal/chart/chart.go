// Package chart answers: how is a chart drawn? In goes a chart of a sheet, which is data, out comes SVG for a page, or lines
// of characters for a terminal. It knows no verb: what is drawn, and in which words, is in the chart.
package chart
