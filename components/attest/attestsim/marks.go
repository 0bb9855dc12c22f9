package attestsim

// Marks are texts that every program with this package in it contains. A release
// must contain none of them (ATT-02).
func Marks() []string {
	return []string{"cadre attestsim", "cadre simulated kms", "cadre.dev/attest/attestsim"}
}
