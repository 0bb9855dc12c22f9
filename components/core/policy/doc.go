// Package policy says what is allowed and compares Claims with it. Whether the
// Claims are genuine is not its question (module attest answers that).
//
// The zero Decision denies, the zero SlotPolicy admits nobody, an absent list
// means "none".
package policy
