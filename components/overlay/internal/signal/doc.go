// Package signal has the messages of two Peers through a mailbox while they search for a
// path: a [Message], and its envelope.
//
//	sender    Seal: payload sealed to the recipient's key (HPKE, P-256), then
//	          signed with the sender's key over everything else
//	mailbox   Peek: sender, recipient, expiry; the content can be neither read nor changed
//	recipient Open: signature, chain, names, life, then the payload;
//	          Guard.Admit: not seen before, not of an older epoch
//
// The mailbox is not trusted (OVL-01, OVL-02, OVL-04). It can lose, delay, repeat and
// reorder envelopes, and send two Peers different ones; it cannot make, change or read
// one, or make a recipient accept one twice.
//
// The package is pure: bytes and times in, values out. The peer map decides which Boot of
// a Slot is the admitted one, and its owner compares Opened.From with it.
package signal
