// SPDX-License-Identifier: Apache-2.0
//
// What the linker has to know of libcurl.so.4: the functions that the prober calls, without versions. Nothing of it
// runs.
void curl_easy_cleanup(void) {}
void curl_easy_getinfo(void) {}
void curl_easy_init(void) {}
void curl_easy_perform(void) {}
void curl_easy_setopt(void) {}
void curl_easy_strerror(void) {}
void curl_global_init(void) {}
void curl_slist_append(void) {}
void curl_slist_free_all(void) {}
