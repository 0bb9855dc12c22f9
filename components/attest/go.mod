module cadre.dev/attest

go 1.26.0

require (
	cadre.dev/core v0.0.0
	github.com/Dstack-TEE/dstack/sdk/go v0.1.0
	github.com/decred/dcrd/dcrec/secp256k1/v4 v4.0.1
	github.com/google/go-tdx-guest v0.3.1
	go.yaml.in/yaml/v3 v3.0.4
	golang.org/x/crypto v0.59.0
)

require (
	github.com/davecgh/go-spew v1.1.2-0.20180830191138-d8f796af33cc // indirect
	github.com/pmezard/go-difflib v1.0.1-0.20181226105442-5d4384ee4fb2 // indirect
	github.com/rogpeppe/go-internal v1.14.1 // indirect
	github.com/stretchr/testify v1.11.1 // indirect
	gopkg.in/check.v1 v1.0.0-20201130134442-10cb98267c6c // indirect
)

require (
	github.com/ethereum/go-ethereum v1.14.13 // indirect; never compiled: files of the dstack SDK behind a build tag, which tidy counts. An old release, so that it raises no other version
	github.com/google/logger v1.1.1 // indirect
	github.com/holiman/uint256 v1.3.2 // indirect
	go.uber.org/multierr v1.11.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

replace cadre.dev/core => ../core
