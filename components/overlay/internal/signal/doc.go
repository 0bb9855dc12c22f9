// Package signal is what two Peers say to each other through a mailbox while
// they look for a path: a [Message], and the envelope that it travels in.
//
//	sender    Seal: payload sealed to the recipient's key (HPKE, P-256), then
//	          signed with the sender's key over everything else
//	mailbox   Peek: who, to whom, until when; nothing inside can be read or changed
//	recipient Open: signature, chain, names, life, then the payload;
//	          Guard.Admit: not seen before, not of an older epoch
//
// The mailbox is not trusted (OVL-01, OVL-02, OVL-04). It can lose, delay,
// repeat and reorder envelopes, and tell two Peers different things; it cannot
// make one, change one, read one, or have one taken twice.
//
// The package is pure: bytes and times in, values out. It does not decide which
// Boot of a Slot is the admitted one; the peer map does, and its owner compares
// Opened.From with it.
package signal
