// Command cadre-become is the first program of each service that runs from a container image in the
// local cloud; see package become. The local cloud alone starts it.
package main

import (
	"fmt"
	"os"

	"cadre.dev/local/internal/become"
)

func main() {
	code, err := become.Run(os.Args[1:])
	fmt.Fprintf(os.Stderr, "%s: %v\n", become.Program, err)
	os.Exit(code)
}
