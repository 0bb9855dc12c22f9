// Package truncate keeps texts and lists that come from agents, platforms, workloads and
// operators within what their record may have: a record above its bound could not be
// written, and whatever waits for it would wait for ever. Texts are for people, so a
// shorter one loses nothing that a decision rests on. It clips no id: what names
// something is refused at its source instead.
package truncate
