// Package policy decides admissions and rollouts by comparing Claims with policies. Module attest
// decides before whether the Claims are genuine.
//
// The zero Decision denies, the zero SlotPolicy admits no Boot, and an absent list means "none".
package policy
