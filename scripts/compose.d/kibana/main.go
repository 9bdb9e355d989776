// Command kibana replaces Kibana if its image is not available. Its status is available
// once Elasticsearch answers. It checks the request of an import of saved objects as
// Kibana does, and logs the types and ids of the objects.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"mime/multipart"
	"net/http"
	"os"
	"time"
)

func main() {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/status", func(w http.ResponseWriter, r *http.Request) {
		status, level := http.StatusServiceUnavailable, "unavailable"
		if answers(os.Getenv("ELASTICSEARCH_HOSTS")) {
			status, level = http.StatusOK, "available"
		}
		answer(w, status, map[string]any{"status": map[string]any{"overall": map[string]any{"level": level}}})
	})
	mux.HandleFunc("POST /api/saved_objects/_import", func(w http.ResponseWriter, r *http.Request) {
		count, err := imported(r)
		if err != nil {
			answer(w, http.StatusBadRequest, map[string]any{"statusCode": 400, "error": "Bad Request", "message": err.Error()})
			return
		}
		answer(w, http.StatusOK, map[string]any{"success": true, "successCount": count})
	})
	server := &http.Server{Addr: "0.0.0.0:5601", Handler: mux, ReadHeaderTimeout: time.Minute}
	log.Fatal(server.ListenAndServe())
}

func answers(elasticsearch string) bool {
	response, err := (&http.Client{Timeout: 5 * time.Second}).Get(elasticsearch + "/_cluster/health")
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// imported logs the objects of an import and counts them.
func imported(r *http.Request) (int, error) {
	if r.Header.Get("kbn-xsrf") == "" {
		return 0, errors.New("the request has no kbn-xsrf header")
	}
	file, header, err := r.FormFile("file")
	if err != nil {
		return 0, err
	}
	defer file.Close()
	return logObjects(file, header)
}

func logObjects(file multipart.File, header *multipart.FileHeader) (count int, err error) {
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for ; lines.Scan(); count++ {
		var object struct{ ID, Type string }
		if err := json.Unmarshal(lines.Bytes(), &object); err != nil || object.ID == "" || object.Type == "" {
			return count, fmt.Errorf("line %d has no type and id: %v", count+1, err)
		}
		log.Printf("%s: %s %s", header.Filename, object.Type, object.ID)
	}
	return count, lines.Err()
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		log.Print(err)
	}
}
