package store

import "time"

// OperatorToken is the record at operators/<sha256>: the operators' token whose digest the
// coordinators' trust file names. The token is created in Consul once, at its first use, so that a
// deleted token stays deleted. An unreadable record counts as created.
type OperatorToken struct {
	// SHA256 of the token, 64 lower-case hex digits.
	SHA256 string `json:"sha256"`
	// Made: it was in Consul. Until then only By creates it, since At.
	Made bool      `json:"made"`
	By   string    `json:"by"`
	At   time.Time `json:"at"`
}
