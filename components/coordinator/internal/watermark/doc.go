// Package watermark grows the cluster's state, the watermark of the records, and detects records
// that went back: a backup was restored, or a record was edited. The Term detects that across
// leaders, and the state within a Term, too.
//
// A leader writes a higher state in the very transaction that records an Operation or a platform
// call, so no effect is ever newer than its state. Agents receive the state and report the highest
// one they saw. If a coordinator learns of a state above the recorded one, later decisions are
// missing in the records, and it plans nothing until an operator accepts that.
package watermark
