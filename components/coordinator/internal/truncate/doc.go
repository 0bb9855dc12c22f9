// Package truncate bounds texts and lists from agents, platforms, workloads and operators to the
// size of their record. A record above its bound could not be written, and its writer would wait
// permanently. The texts are for human readers, so truncation does not affect decisions. The
// package never truncates ids: an id that is too long is rejected at its source.
package truncate
