// Package watermark grows the cluster's state, the number that tells how far the records
// have come, and tells when they went back: a backup was restored, or somebody edited
// them. The Term tells that across leaders; the state tells it within a Term, too.
//
// A leader writes a higher state in the very transaction that records an Operation or a
// platform call, so that no effect is ever newer than it. Agents are told the state and
// report the highest they saw. Whoever finds it above the records knows that what was
// decided since is not in them, and plans nothing until an operator says so.
package watermark
