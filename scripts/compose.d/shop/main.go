// Command shop is a handler on the host of the containers: POST /orders answers 200,
// or the status in the file /tmp/broken, if it exists.
//
//	shop ADDRESS
package main

import (
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

func main() {
	http.HandleFunc("POST /orders", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		text, err := os.ReadFile("/tmp/broken")
		if err != nil {
			return
		}
		status, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			status = http.StatusInternalServerError
		}
		http.Error(w, "no such table: violins", status)
	})
	server := &http.Server{Addr: os.Args[1], ReadHeaderTimeout: time.Minute}
	log.Fatal(server.ListenAndServe())
}
