// Package view reads all records of the cluster at one moment. Every decision and every answer
// starts from a View, so nothing depends on this process's memory.
//
//	store ── one consistent list ──► View ──► reconcile, control, server, admission
//
// A Watcher keeps the latest View of a coordinator for the parts that only answer questions. The
// leader reads a fresh View for each pass.
package view
