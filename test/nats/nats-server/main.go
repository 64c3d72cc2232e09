// The newest nats-server, as its own main package starts it.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/nats-io/nats-server/v2/server"
)

func main() {
	options, err := server.ConfigureOptions(flag.NewFlagSet("nats-server", flag.ExitOnError), os.Args[1:], server.PrintServerAndExit, nil, nil)
	if err == nil && options == nil {
		return
	}
	// With -t, reading the configuration is all.
	if err == nil && options.CheckConfig {
		return
	}
	var running *server.Server
	if err == nil {
		running, err = server.NewServer(options)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	running.ConfigureLogger()
	if err := server.Run(running); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	running.WaitForShutdown()
}
