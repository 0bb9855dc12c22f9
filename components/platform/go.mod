module cadre.dev/platform

go 1.26.0

require (
	cadre.dev/attest v0.0.0
	cadre.dev/core v0.0.0
)

require (
	github.com/Dstack-TEE/dstack/sdk/go v0.1.0 // indirect
	github.com/decred/dcrd/dcrec/secp256k1/v4 v4.0.1 // indirect
	github.com/ethereum/go-ethereum v1.14.13 // indirect
	github.com/holiman/uint256 v1.3.2 // indirect
	golang.org/x/crypto v0.59.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
)

replace (
	cadre.dev/attest => ../attest
	cadre.dev/core => ../core
)
